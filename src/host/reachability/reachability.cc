#include "host/reachability/reachability.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>

#include "host/devices/taken_ports.h"
#include "host/observation/way_names.h"
#include "host/reachability/multicast_group.h"

namespace verbena::host {

namespace {

std::optional<IpAddress> gid_at(const Device& device, std::size_t index) {
  if (index >= device.gids.size() || device.gids[index] == IpAddress{}) return std::nullopt;
  return device.gids[index];
}

}  // namespace

Status Reachability::open_address(const IpAddress& address, unsigned interface) {
  const bool known = wires_.rings_alone(address);
  auto opened = wires_.open_address({address, interface});
  if (opened) rnic_.set_receive_buffer(wires_.network().receive_buffer());
  if (wires_.rings_alone(address) && !known && !wires_.network_forbidden()) {
    log(LogLevel::warn, "{} reaches processes of this user on this host only: {}", address.text(),
        why_no_network(address));
  }
  return opened;
}

Status Reachability::open_own_address(const IpAddress& address) {
  for (const Device& device : list_devices_()) {
    if (std::ranges::find(device.gids, address) != device.gids.end()) {
      return open_address(address, device.interface_index);
    }
  }
  return Error{EADDRNOTAVAIL, address.text() + " is no address of a device"};
}

std::string Reachability::why_no_network(const IpAddress& source) const {
  if (wires_.network_forbidden()) return "--wire shm takes no network; use --wire auto";
  return fmt::format(
      "UDP port {} at {} is taken by {}: end it, or use another address, or a "
      "network of your own (`verbena netns -- COMMAND`)",
      packet::kRocePort, source.text(), holder_of_port(source));
}

bool Reachability::is_of_this_host(const IpAddress& address) const {
  return std::ranges::any_of(list_devices_(), [&](const Device& device) {
    return std::ranges::find(device.gids, address) != device.gids.end();
  });
}

Status Reachability::check_destination(const IpAddress& source,
                                       const IpAddress& destination) const {
  if (!wires_.rings_alone(source) || destination.is_multicast() || source == destination ||
      is_of_this_host(destination)) {
    return Ok{};
  }
  return Error{EHOSTUNREACH,
               fmt::format("{} can't be reached from {}: it is not an address of this host, and {}",
                           destination.text(), source.text(), why_no_network(source))};
}

Status Reachability::check_peer(const packet::Flow& flow, Qpn peer) {
  if (!wires_.rings_alone(flow.source)) return Ok{};
  const packet::Course course = wires_.choose_way(flow, peer);
  if (course.detour == packet::Detour::none) return Ok{};
  // A process that is about to set up its end may not have opened its address yet.
  if (course.detour == packet::Detour::other_host && wires_.is_held(peer) &&
      is_of_this_host(flow.destination)) {
    return Ok{};
  }
  return Error{EHOSTUNREACH, fmt::format("peer {} qp {:#x} can't be reached from {}: {}, and {}",
                                         flow.destination.text(), peer.value(), flow.source.text(),
                                         text_of(course.detour), why_no_network(flow.source))};
}

Result<packet::Flow> Reachability::open_flow(const Device& device,
                                             const engine::AddressVector& path) {
  if (!path.global) {
    return Error{EINVAL,
                 "the address vector has no GRH (is_global = 0); RoCE needs one: set is_global and "
                 "sgid_index"};
  }
  const auto found = gid_at(device, path.source_index);
  if (!found) {
    return Error{EINVAL, fmt::format("sgid_index {} is empty or beyond the {} GIDs of {}; see "
                                     "\"verbena devices\"",
                                     path.source_index, device.gids.size(), device.name)};
  }
  const IpAddress source = *found;
  const IpAddress destination = group_of(path.destination).value_or(path.destination);
  if (source.is_v4() != destination.is_v4()) {
    return Error{EINVAL,
                 fmt::format("GID {} of {} is {}, which can't reach {}: choose a "
                             "sgid_index of the same family",
                             path.source_index, device.name, source.text(), destination.text())};
  }
  if (auto opened = open_address(source, device.interface_index); !opened) {
    return opened.error();
  }
  if (auto reachable = check_destination(source, destination); !reachable) {
    return reachable.error();
  }
  return packet::Flow{.source = source,
                      .destination = destination,
                      .traffic_class = path.traffic_class,
                      .hop_limit = path.hop_limit};
}

Status Reachability::open_path(const Device& device, const engine::QueuePair& qp,
                               engine::QpAttributes& a) {
  const auto flow = open_flow(device, a.path);
  if (!flow) return flow.error();
  if (flow->destination.is_multicast()) {
    return Error{EINVAL, fmt::format("{} is a multicast address: only UD sends to those",
                                     flow->destination.text())};
  }
  const auto port = wires_.source_port(flow->source, qp.qpn);
  if (!port) return port.error();
  a.flow = *flow;
  a.flow.source_port = *port;
  return Ok{};
}

/// Datagrams may come to, and leave from, any address of the device. An address that can't be
/// opened doesn't keep the others closed.
Status Reachability::open_datagrams(const Device& device, QueuePair& qp) {
  if (!qp.ports) qp.ports = std::make_unique<SourcePorts>();
  std::optional<Error> problem;
  for (const IpAddress& address : device.gids) {
    if (address == IpAddress{} || qp.ports->at(address) != 0) continue;
    Status opened = open_address(address, device.interface_index);
    const auto port =
        opened ? wires_.source_port(address, qp.qpn) : Result<std::uint16_t>{opened.error()};
    if (port && qp.ports->add(address, *port)) continue;
    problem = port ? Error{ENOMEM, fmt::format("it has {} addresses already", SourcePorts::kMost)}
                   : port.error();
    log(LogLevel::warn, "qp {:#x} can't receive datagrams at {}: {}", qp.qpn.value(),
        address.text(), problem->message);
  }
  if (qp.ports->empty() && problem) return *problem;
  wildcards_.add(qp);
  return Ok{};
}

Status Reachability::open_wildcard(registry::Family family) {
  wildcards_.add_listeners(family);
  return open_for_listeners(list_devices_(), LogLevel::warn);
}

/// An address that can't be opened (another user has it, or it is still tentative) doesn't keep the
/// others closed.
Status Reachability::open_for_listeners(const std::vector<Device>& devices, LogLevel level) {
  bool any = false;
  Status last = Error{EADDRNOTAVAIL, "no address to listen at"};
  for (const Device& device : devices) {
    for (const IpAddress& address : device.gids) {
      if (address == IpAddress{} || !wildcards_.listens_at(address)) continue;
      auto opened = open_address(address, device.interface_index);
      any = any || opened.ok();
      if (opened) continue;
      log(level, "a listener at every address isn't heard at {}: {}", address.text(),
          opened.error().message);
      last = std::move(opened);
    }
  }
  return any ? Ok{} : last;
}

void Reachability::follow_devices() {
  if (wildcards_.empty()) return;
  const auto devices = list_devices_();
  (void)open_for_listeners(devices, LogLevel::debug);
  for (QueuePair* qp : wildcards_.pairs()) {
    const auto device = std::find_if(devices.begin(), devices.end(),
                                     [&](const Device& d) { return d.name == qp->device; });
    if (device != devices.end()) (void)open_datagrams(*device, *qp);
  }
}

Status Reachability::attach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  const auto group = group_of(gid);
  if (!group) return Error{EINVAL, fmt::format("{} is not a multicast GID", gid.text())};
  const Membership membership{*group, device.interface_index};
  if (std::find(qp.groups.begin(), qp.groups.end(), membership) != qp.groups.end()) return Ok{};
  const LocalAddress local{*group, device.interface_index};
  if (auto joined = wires_.join(local); !joined) return joined;
  if (auto attached = rnic_.attach_multicast(qp, *group); !attached) {
    wires_.network().leave(local);
    return attached;
  }
  qp.groups.push_back(membership);
  return Ok{};
}

Status Reachability::detach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  const IpAddress group = group_of(gid).value_or(gid);
  if (auto detached = rnic_.detach_multicast(qp, group); !detached) return detached;
  wires_.network().leave({group, device.interface_index});
  std::erase(qp.groups, Membership{group, device.interface_index});
  return Ok{};
}

void Reachability::leave_groups(QueuePair& qp) {
  for (const Membership& m : qp.groups) wires_.network().leave({m.group, m.interface});
  qp.groups.clear();
}

}  // namespace verbena::host
