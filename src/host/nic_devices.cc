// Devices, and what their ports have counted.

#include <optional>
#include <utility>

#include "host/nic_state.h"

namespace verbena::host {

std::vector<Device> Nic::devices() { return state_->monitor().devices(); }

std::optional<Device> Nic::find_device(const std::string& name) {
  return state_->monitor().find(name);
}

void Nic::watch_port(const std::string& device, EventChannel& channel) {
  state_->monitor().watch(device, channel);
}

void Nic::unwatch_port(const EventChannel& channel) { state_->monitor().unwatch(channel); }

Statistics::Port Nic::port_statistics(const Device& device) {
  std::optional<Statistics::Port> sum;
  state_->for_each_shard([&](Shard& shard) {
    Statistics::Port part = shard.inspect(
        [&](ShardState& s) { return s.outputs.port_statistics(device, s.rnic, *s.wires); });
    if (sum) {
      *sum += part;
    } else {
      sum = std::move(part);
    }
  });
  return std::move(sum).value();
}

}  // namespace verbena::host
