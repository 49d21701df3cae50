// Connections: addresses, ports of rdma_cm, and the connection manager.

#include "host/nic_state.h"

namespace verbena::host {

Status Nic::open_address(const Device& device, const IpAddress& address) {
  return state_->gsi_shard().locked(
      [&](ShardState& s) { return s.reachability.open_address(address, device.interface_index); });
}

Status Nic::check_destination(const IpAddress& source, const IpAddress& destination) {
  return state_->gsi_shard().inspect(
      [&](ShardState& s) { return s.reachability.check_destination(source, destination); });
}

Status Nic::open_wildcard(registry::Family family) {
  return state_->gsi_shard().locked(
      [&](ShardState& s) { return s.reachability.open_wildcard(family); });
}

Result<registry::BoundPort> Nic::bind_port(const registry::PortBinding& binding) {
  return state_->gsi_shard().locked([&](ShardState& s) { return s.registry->bind_port(binding); });
}

Status Nic::listen_port(registry::PortId port) {
  return state_->gsi_shard().locked([&](ShardState& s) { return s.registry->listen_port(port); });
}

void Nic::release_port(registry::PortId port) {
  state_->gsi_shard().locked([&](ShardState& s) { s.registry->release_port(port); });
}

void Nic::manage(const std::function<void(cm::ConnectionManager&, Instant)>& f) {
  state_->gsi_shard().locked([&](ShardState& s) { f(s.connections.manager(), now()); },
                             Shard::Rounds::exchange);
}

bool Nic::manage_within(Duration patience,
                        const std::function<void(cm::ConnectionManager&, Instant)>& f) {
  return state_->gsi_shard().locked_within(
      patience, [&](ShardState& s) { f(s.connections.manager(), now()); });
}

std::vector<cm::Event> Nic::take_connection_events() {
  return state_->gsi_shard().take_connection_events();
}

void Nic::observe_connections(ConnectionObserver* observer) {
  state_->gsi_shard().observe(observer);
}

}  // namespace verbena::host
