#include "wire/gsi_route.h"

#include "packet/cm_steering.h"
#include "registry/port_table.h"

namespace verbena::wire {
namespace {

struct Router {
  const registry::SharedTable& table;
  const IpAddress& destination;
  std::uint32_t own_slot;

  GsiRoute operator()(packet::ToSlot to) const {
    return {table.held(to.slot) ? to.slot : own_slot, {}};
  }
  GsiRoute operator()(packet::ToListener to) const {
    return {registry::listener_of(table, to.service, destination).value_or(own_slot), {}};
  }
  GsiRoute operator()(packet::ToEveryListener) const {
    auto others = registry::listening_slots(table);
    std::erase(others, own_slot);
    return {own_slot, std::move(others)};
  }
};

}  // namespace

GsiRoute gsi_route(const packet::Datagram& d, const registry::SharedTable& table,
                   std::uint32_t own_slot) {
  const auto target = packet::cm_target(d.bytes);
  if (!target) return {own_slot, {}};
  return std::visit(Router{table, d.destination, own_slot}, *target);
}

}  // namespace verbena::wire
