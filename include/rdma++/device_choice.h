// Which device to use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rdma++/cm_id.h"
#include "rdma++/context.h"
#include "rdma++/device.h"

namespace rdma {

/// The one that has this address ("192.0.2.1", "fe80::1").
[[nodiscard]] inline Device device_with_address(const std::string& address) {
  const auto gid = Gid::parse(address);
  if (!gid) throw Error{"device", concat("address \"", address, '"'), EINVAL, "no IP address"};
  for (const Device& device : Device::all()) {
    const Context context{device};
    for (std::uint8_t port = 1; port <= context.limits().phys_port_cnt; ++port) {
      if (context.find_gid(*gid, port)) return device;
    }
  }
  throw Error{"device", concat("address ", address), ENODEV, "no RDMA device has it"};
}

/// The one that reaches this host, by the routes of the machine; rdma_cm knows.
[[nodiscard]] inline Device device_reaching(const std::string& host, Deadline until = 5s) {
  const CmChannel channel;
  CmId id{channel};
  id.resolve(channel, SocketAddress::of(host, 1), std::nullopt, until);
  return Device::by_name(id.context().name());
}

/// What is known of a device before one is chosen; a pure value, so that the rule can be tested.
struct DeviceSketch {
  std::string name;
  bool active = false;
};

/// The first of ours that is active, but the loopback device only when there is nothing else; then
/// the first active one; then the first. nullopt: there is none.
[[nodiscard]] inline std::optional<std::size_t> default_choice(
    const std::vector<DeviceSketch>& devices) {
  const auto rank = [](const DeviceSketch& device) {
    const bool ours = is_verbena(device.name);
    const bool loopback = device.name == "vb_lo";
    return (device.active ? 4 : 0) + (loopback ? 0 : 2) + (ours && !loopback ? 1 : 0);
  };
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!best || rank(devices[i]) > rank(devices[*best])) best = i;
  }
  return best;
}

[[nodiscard]] inline Device default_device() {
  const std::vector<Device> devices = Device::all();
  std::vector<DeviceSketch> sketches;
  for (const Device& device : devices) {
    sketches.push_back({device.name(), Context{device}.is_active()});
  }
  const auto choice = default_choice(sketches);
  if (!choice) {
    throw Error{"device", "", ENODEV, "this machine has no device; `verbena run` gives it some"};
  }
  return devices[*choice];
}

/// By name if one is given, else the one that reaches `peer` if that is given, else the default.
[[nodiscard]] inline Device choose_device(const std::string& name, const std::string& peer = "") {
  if (!name.empty()) return Device::by_name(name);
  return peer.empty() ? default_device() : device_reaching(peer);
}

}  // namespace rdma
