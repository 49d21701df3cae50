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
/// A rule whose condition isn't known (an address, a named set) counts if it accepts, and not if it
/// drops.
[[nodiscard]] std::vector<Obstacle> obstacles_in_nft(const nlohmann::json& ruleset);

/// `rules`: what `PROGRAM -S` prints. Of the older iptables: the newer one's rules are nft's.
[[nodiscard]] std::vector<Obstacle> obstacles_in_iptables(std::string_view rules,
                                                          const std::string& program);

[[nodiscard]] Finding check_firewall();

}  // namespace verbena::doctor
