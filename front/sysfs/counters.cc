#include "front/sysfs/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "front/verbs/nic.h"
#include "host/observation/statistics.h"

namespace verbena::front::sysfs {

namespace {

constexpr std::string_view kPort = "counters/";
constexpr std::string_view kHardware = "hw_counters/";
/// Of a link that the port doesn't have: a socket knows no symbols, virtual lanes and switches.
constexpr std::array<std::string_view, 9> kAlwaysZero{"VL15_dropped",
                                                      "excessive_buffer_overrun_errors",
                                                      "link_error_recovery",
                                                      "local_link_integrity_errors",
                                                      "port_rcv_constraint_errors",
                                                      "port_rcv_remote_physical_errors",
                                                      "port_rcv_switch_relay_errors",
                                                      "port_xmit_constraint_errors",
                                                      "symbol_error"};
/// Milliseconds for which a driver's values may be old. Ours never are.
constexpr std::string_view kLifespan = "lifespan";
/// rxe has it among these, too.
constexpr std::string_view kLinkDowned = "link_downed";

host::Statistics::Port port_now(const host::Device& device) {
  if (host::Nic* const nic = live_nic.load()) return nic->port_statistics(device);
  return host::idle_port(device.name, device.interface);
}

std::optional<std::string> find_in(const std::vector<host::Statistics::Value>& values,
                                   std::string_view name) {
  const auto found = std::ranges::find(values, name, &host::Statistics::Value::first);
  if (found == values.end()) return std::nullopt;
  return std::to_string(found->second);
}

std::optional<std::string> read_hardware_counter(const host::Device& device,
                                                 std::string_view name) {
  if (name == kLifespan) return "0";
  if (name == kLinkDowned) return find_in(port_now(device).traffic, name);
  const auto known = std::ranges::find(engine::kCounters, name, &engine::CounterInfo::name);
  if (known == engine::kCounters.end()) return std::nullopt;
  return std::to_string(port_now(device).counters.*known->value);
}

}  // namespace

std::optional<std::string> read_counter(const host::Device& device, std::string_view path) {
  if (path.starts_with(kHardware)) {
    return read_hardware_counter(device, path.substr(kHardware.size()));
  }
  if (!path.starts_with(kPort)) return std::nullopt;
  const auto name = path.substr(kPort.size());
  if (std::ranges::find(kAlwaysZero, name) != kAlwaysZero.end()) return "0";
  return find_in(port_now(device).traffic, name);
}

std::vector<std::string> counter_paths(const host::Device& device) {
  std::vector<std::string> out{fmt::format("{}{}", kHardware, kLifespan)};
  for (const auto name : kAlwaysZero) out.push_back(fmt::format("{}{}", kPort, name));
  for (const auto& c : engine::kCounters) out.push_back(fmt::format("{}{}", kHardware, c.name));
  for (const auto& [name, value] : host::idle_port(device.name, device.interface).traffic) {
    out.push_back(fmt::format("{}{}", kPort, name));
    if (name == kLinkDowned) out.push_back(fmt::format("{}{}", kHardware, name));
  }
  return out;
}

}  // namespace verbena::front::sysfs
