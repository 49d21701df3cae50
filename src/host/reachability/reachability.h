#pragma once

#include <functional>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "engine/rnic.h"
#include "host/devices/device.h"
#include "host/log.h"
#include "host/queue_pair.h"
#include "host/reachability/wildcard_endpoints.h"
#include "host/wires.h"
#include "packet/frame.h"

namespace verbena::host {

/// Opens the addresses, paths and multicast groups that queue pairs and listeners need. Not
/// thread-safe: the shard lock guards it.
class Reachability {
 public:
  using ListDevices = std::function<std::vector<Device>()>;

  Reachability(engine::Rnic& rnic, Wires& wires, ListDevices list_devices)
      : rnic_{rnic}, wires_{wires}, list_devices_{std::move(list_devices)} {}

  /// Packets to `address` are received, and packets can leave from it.
  Status open_address(const IpAddress& address, unsigned interface);
  /// The same for an address of any device. EADDRNOTAVAIL: no device has it.
  Status open_own_address(const IpAddress& address);
  /// Frames from `source`, which is open, can get to `destination`. EHOSTUNREACH: rings alone
  /// leave from there, and it isn't an address of this host.
  [[nodiscard]] Status check_destination(const IpAddress& source,
                                         const IpAddress& destination) const;
  /// The same for a connected queue pair and its peer. EHOSTUNREACH: rings can't reach the peer.
  [[nodiscard]] Status check_peer(const packet::Flow& flow, Qpn peer);
  /// The flow of a path but for its source port. Opens its source address.
  [[nodiscard]] Result<packet::Flow> open_flow(const Device& device,
                                               const engine::AddressVector& path);
  /// The path of a connected queue pair: sets a.flow.
  Status open_path(const Device& device, const engine::QueuePair& qp, engine::QpAttributes& a);
  /// All addresses of the device for a datagram queue pair, now and later.
  Status open_datagrams(const Device& device, QueuePair& qp);
  /// All addresses of a family for wildcard listeners, now and later.
  Status open_wildcard(registry::Family family);
  void forget(const QueuePair& qp) { wildcards_.remove(qp); }

  Status attach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid);
  Status detach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid);
  void leave_groups(QueuePair& qp);

  /// Devices have changed: opens their new addresses for wildcard endpoints.
  void follow_devices();

 private:
  [[nodiscard]] bool is_of_this_host(const IpAddress& address) const;
  [[nodiscard]] std::string why_no_network(const IpAddress& source) const;
  Status open_for_listeners(const std::vector<Device>& devices, LogLevel level);

  engine::Rnic& rnic_;
  Wires& wires_;
  const ListDevices list_devices_;
  WildcardEndpoints wildcards_;
};

}  // namespace verbena::host
