#include "host/device.h"

#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <sstream>

#include "base/bytes.h"
#include "host/gid_table.h"

namespace verbena::host {

namespace {

/// IP (40), UDP (8), BTH and the longest extension headers (32), ICRC (4).
constexpr std::uint32_t kOverhead = 84;

std::uint32_t interface_mtu(const std::string& interface) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  const bool ok = ioctl(fd, SIOCGIFMTU, &request) == 0;
  close(fd);
  return ok ? static_cast<std::uint32_t>(request.ifr_mtu) : 0;
}

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

/// Interfaces whose RoCE is spoken by hardware or by the kernel's rxe.
std::vector<std::string> interfaces_with_rdma() {
  namespace fs = std::filesystem;
  std::vector<std::string> out;
  std::error_code none;
  for (const auto& device : fs::directory_iterator{"/sys/class/infiniband", none}) {
    for (const auto& port : fs::directory_iterator{device.path() / "ports", none}) {
      for (const auto& entry : fs::directory_iterator{port.path() / "gid_attrs/ndevs", none}) {
        std::ifstream file{entry.path()};
        std::string interface;
        if (file >> interface) out.push_back(interface);
      }
    }
  }
  return out;
}

std::uint64_t guid_of(const Device& d, std::span<const std::uint8_t> mac) {
  const bool usable =
      mac.size() == 6 && std::any_of(mac.begin(), mac.end(), [](auto b) { return b != 0; });
  if (!usable) return 0x0276'62ff'fe00'0000ull | d.interface_index;  // locally administered, "vb"
  const std::array<std::uint8_t, 8> eui{
      static_cast<std::uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  return load_be64(eui.data());
}

/// Link-local, other IPv6, IPv4.
int rank(const IpAddress& a) { return a.is_v4() ? 2 : a.is_link_local() ? 0 : 1; }

void take_address(Device& d, const sockaddr* a) {
  if (a->sa_family == AF_INET) {
    std::array<std::uint8_t, 4> four{};
    std::memcpy(four.data(), &reinterpret_cast<const sockaddr_in*>(a)->sin_addr, 4);
    d.gids.push_back(IpAddress::v4(four));
  } else if (a->sa_family == AF_INET6) {
    IpAddress::Bytes sixteen{};
    std::memcpy(sixteen.data(), &reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr, 16);
    d.gids.emplace_back(sixteen);
  } else if (a->sa_family == AF_PACKET) {
    const auto* link = reinterpret_cast<const sockaddr_ll*>(a);
    d.guid = guid_of(d, {link->sll_addr, std::min<std::size_t>(link->sll_halen, 8)});
  }
}

}  // namespace

std::uint16_t Device::active_mtu() const {
  std::uint16_t mtu = 4096;
  while (mtu > 256 && mtu + kOverhead > interface_mtu) mtu = static_cast<std::uint16_t>(mtu / 2);
  return mtu;
}

namespace {

/// The same table for all of the process.
std::vector<IpAddress> stable_gids(const Device& d) {
  static std::mutex lock;
  static auto& tables = *new GidTables;  // never destroyed: threads may outlive it
  const std::lock_guard held{lock};
  return tables.stable(d.name, d.gids);
}

}  // namespace

std::vector<Device> list_devices() {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list{raw, &freeifaddrs};

  std::map<unsigned, Device> by_index;
  std::map<unsigned, bool> loopback;
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) {
    if ((i->ifa_flags & IFF_UP) == 0 || i->ifa_addr == nullptr) continue;
    // The name may be an address label ("eth0:alias"): ask for the interface's own.
    const unsigned index = if_nametoindex(i->ifa_name);
    std::array<char, IF_NAMESIZE> name{};
    if (index == 0 || if_indextoname(index, name.data()) == nullptr) continue;
    Device& d = by_index[index];
    d.interface = name.data();
    d.name = "vb_" + d.interface;
    d.interface_index = index;
    d.up = (i->ifa_flags & IFF_RUNNING) != 0;
    loopback[index] = (i->ifa_flags & IFF_LOOPBACK) != 0;
    take_address(d, i->ifa_addr);
  }

  const auto taken = interfaces_with_rdma();
  const auto first = default_route_interface();
  std::vector<Device> out;
  for (auto& [index, d] : by_index) {
    if (d.gids.empty() || std::find(taken.begin(), taken.end(), d.interface) != taken.end())
      continue;
    std::stable_sort(d.gids.begin(), d.gids.end(),
                     [](const auto& a, const auto& b) { return rank(a) < rank(b); });
    d.gids = stable_gids(d);
    if (d.guid == 0) d.guid = guid_of(d, {});
    d.interface_mtu = interface_mtu(d.interface);
    out.push_back(std::move(d));
  }
  std::stable_sort(out.begin(), out.end(), [&](const Device& a, const Device& b) {
    const auto order = [&](const Device& d) {
      return d.interface == first ? 0 : loopback[d.interface_index] ? 2 : 1;
    };
    return order(a) < order(b);
  });
  return out;
}

}  // namespace verbena::host
