#include "host/devices/device.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/bytes.h"
#include "host/devices/gid_table.h"
#include "host/devices/netlink.h"
#include "host/devices/roce_interfaces.h"
#include "host/log.h"
#include "host/shutdown/fork_handlers.h"

namespace verbena::host {

namespace {

/// IP (40), UDP (8), BTH and the longest extension headers (32), ICRC (4).
constexpr std::uint32_t kOverhead = 84;

std::string default_route_interface() {
  std::ifstream routes{"/proc/net/route"};
  std::string line;
  std::getline(routes, line);  // headings
  while (std::getline(routes, line)) {
    std::istringstream fields{line};
    std::string interface;
    std::string destination;
    if (fields >> interface >> destination && destination == "00000000") return interface;
  }
  return {};
}

/// Locally administered, "vb".
std::uint64_t guid_without_mac(unsigned interface_index) {
  return 0x0276'62ff'fe00'0000ull | interface_index;
}

std::uint64_t guid_of(unsigned interface_index, const std::optional<Link::Mac>& mac) {
  const bool usable = mac && *mac != Link::Mac{};
  if (!usable) return guid_without_mac(interface_index);
  const auto& m = *mac;
  const std::array<std::uint8_t, 8> eui{
      static_cast<std::uint8_t>(m[0] ^ 2), m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
  return load_be64(eui.data());
}

/// Link-local, other IPv6, IPv4.
int rank(const IpAddress& a) { return a.is_v4() ? 2 : a.is_link_local() ? 0 : 1; }

std::vector<IpAddress> addresses_of(const Link& link) {
  std::vector<IpAddress> out;
  for (const Link::Address& a : link.addresses) {
    if (std::find(out.begin(), out.end(), a.address) == out.end()) out.push_back(a.address);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return out;
}

/// The same table for all of the process, and for its forked children.
class ProcessGids {
 public:
  std::vector<IpAddress> stable(const std::string& device,
                                const std::vector<IpAddress>& addresses) {
    const std::lock_guard held{lock_};
    return tables_.stable(device, addresses);
  }

  static ProcessGids& instance() {
    static auto& only = *new ProcessGids;  // never destroyed: threads may outlive it
    return only;
  }

 private:
  ProcessGids() {
    static constexpr ForkHandler handler{.prepare = [] { instance().lock_.lock(); },
                                         .parent = [] { instance().lock_.unlock(); },
                                         .child = [] { instance().lock_.unlock(); }};
    at_fork(ForkRank::gid_tables, handler);
  }
  std::mutex lock_;
  GidTables tables_;
};

Device device_of(unsigned index, const Link& link) {
  const auto addresses = addresses_of(link);
  Device d{.name = "vb_" + link.name,
           .interface = link.name,
           .interface_index = index,
           .guid = guid_of(index, link.mac),
           .interface_mtu = link.mtu,
           .up = link.running(),
           .listed = link.enabled() && !addresses.empty(),
           .gids = {}};
  d.gids = ProcessGids::instance().stable(d.name, addresses);
  return d;
}

}  // namespace

std::uint16_t Device::active_mtu() const {
  std::uint16_t mtu = 4096;
  while (mtu > 256 && mtu + kOverhead > interface_mtu) mtu = static_cast<std::uint16_t>(mtu / 2);
  return mtu;
}

std::vector<Device> devices_of(const LinkTable& links) {
  const auto taken = roce_interfaces();
  std::vector<Device> out;
  for (const auto& [index, link] : links.all()) {
    const bool ours = find_interface(taken, link.name) == nullptr;
    if (link.name.empty() || !ours) continue;
    Device d = device_of(index, link);
    // librdmacm knows our devices by GUID alone, and a VLAN has the MAC of the interface below it.
    const bool shared =
        std::ranges::any_of(out, [&](const Device& other) { return other.guid == d.guid; });
    if (shared) d.guid = guid_without_mac(index);
    out.push_back(std::move(d));
  }
  return out;
}

std::vector<Device> list_devices() {
  const auto links = ask_for_links();
  if (!links) {
    log(LogLevel::warn, "no devices, because the network interfaces can't be listed: {}",
        links.error().message);
    return {};
  }
  std::vector<Device> out = devices_of(*links);
  std::erase_if(out, [](const Device& d) { return !d.listed; });
  const auto first = default_route_interface();
  std::stable_sort(out.begin(), out.end(), [&](const Device& a, const Device& b) {
    const auto order = [&](const Device& d) {
      if (d.interface == first) return 0;
      return links->all().at(d.interface_index).loopback() ? 2 : 1;
    };
    return order(a) < order(b);
  });
  return out;
}

namespace {

const Device* find(const std::vector<Device>& devices, const std::string& name) {
  const auto found =
      std::find_if(devices.begin(), devices.end(), [&](const Device& d) { return d.name == name; });
  return found != devices.end() ? &*found : nullptr;
}

bool is_empty(const std::vector<IpAddress>& gids) {
  return std::ranges::all_of(gids, [](const IpAddress& gid) { return gid == IpAddress{}; });
}

/// nullptr: there is no such device.
void compare(const Device* before, const Device* after, std::vector<PortChange>& out) {
  const std::string& name = before != nullptr ? before->name : after->name;
  const bool was_up = before != nullptr && before->up;
  const bool is_up = after != nullptr && after->up;
  if (was_up != is_up) out.push_back({name, is_up ? PortEvent::active : PortEvent::error});
  static const std::vector<IpAddress> none;
  const auto& had = before != nullptr ? before->gids : none;
  const auto& has = after != nullptr ? after->gids : none;
  if (had != has && !(is_empty(had) && is_empty(has))) {
    out.push_back({name, PortEvent::gid_change});
  }
  if (after == nullptr) out.push_back({name, PortEvent::device_fatal});
}

}  // namespace

std::vector<PortChange> changes(const std::vector<Device>& before,
                                const std::vector<Device>& after) {
  std::vector<PortChange> out;
  for (const Device& d : before) compare(&d, find(after, d.name), out);
  for (const Device& d : after) {
    if (find(before, d.name) == nullptr) compare(nullptr, &d, out);
  }
  return out;
}

}  // namespace verbena::host
