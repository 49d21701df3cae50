#pragma once

// What `verbena devices` and `verbena stat` tell, judged.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/doctor/check.h"

namespace verbena::doctor {

/// `devices`: the list that `verbena devices --json` prints.
[[nodiscard]] Findings judge_devices(const nlohmann::json& devices);
/// `processes`: the list that `verbena stat --json` prints.
[[nodiscard]] Finding judge_traffic(const nlohmann::json& processes);

/// An address of an active device of ours, IPv4 rather than IPv6; "": there is none.
[[nodiscard]] std::string usable_address(const nlohmann::json& devices);

struct DevicesCheck {
  Findings findings;
  std::string address;  // usable_address()
};
/// Each runs its command.
[[nodiscard]] DevicesCheck check_devices();
[[nodiscard]] Finding check_traffic();

}  // namespace verbena::doctor
