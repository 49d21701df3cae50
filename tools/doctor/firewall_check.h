#pragma once

// Does this host's firewall let UDP port 4791 through? Its rules are readable for root alone.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/check.h"

namespace verbena::doctor {

/// A chain that drops a new packet to UDP port 4791.
struct Obstacle {
  std::string what;  // the chain, and the reason
  Mend mend;
};

/// `ruleset`: what `nft -j list ruleset` prints. Looks at the chains of the hooks input and output.
/// Rules whose condition isn't known (addresses, sets) count as not matching. With
/// `without_iptables`, the tables that iptables makes are left out.
[[nodiscard]] std::vector<Obstacle> obstacles_in_nft(const nlohmann::json& ruleset,
                                                     bool without_iptables);

/// `rules`: what `iptables -S` prints, of that program.
[[nodiscard]] std::vector<Obstacle> obstacles_in_iptables(std::string_view rules,
                                                          const std::string& program);

[[nodiscard]] Finding check_firewall();

}  // namespace verbena::doctor
