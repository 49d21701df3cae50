// What the NIC has counted, with the engine's lock held for as long as it takes to read it.

#include "host/nic_impl.h"

namespace verbena::host {
namespace {

const QueuePair& host_of(const engine::QueuePair& pair) {
  return *static_cast<const QueuePair*>(pair.cookie);
}

}  // namespace

Statistics Nic::Impl::statistics() const {
  std::vector<Statistics::Pair> live;
  rnic.for_each_qp([&](const engine::QueuePair& pair) { live.push_back(pair_of(host_of(pair))); });
  return outputs_.statistics(live, *wire_);
}

std::string Nic::Impl::account() {
  Statistics s = statistics();
  // There may be more than fit into a message.
  s.unlisted += s.pairs.size();
  s.pairs.clear();
  return as_json(s);
}

Statistics::Port Nic::Impl::port_statistics(const Device& device) {
  const NoCancellation shield;
  const std::lock_guard lock{engine};
  Statistics::Port port{device.name, outputs_.pairs().sum_of(device.name), {}, 0};
  rnic.for_each_qp([&](const engine::QueuePair& pair) {
    if (host_of(pair).device == device.name) port.counters += pair.counters;
  });
  fill_from_wire(port, device.interface, *wire_);
  return port;
}

Statistics::Port Nic::port_statistics(const Device& device) {
  return impl_->port_statistics(device);
}

}  // namespace verbena::host
