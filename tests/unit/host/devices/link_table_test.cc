// rtnetlink's messages in, the table of interfaces and the events of ports out.

#include "host/devices/link_table.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cstring>

#include "host/devices/device.h"

namespace verbena::host {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr unsigned kIndex = 7;
constexpr unsigned kRunning = IFF_UP | IFF_RUNNING;
const auto kV4 = IpAddress::v4({10, 0, 0, 1});
const auto kOther = IpAddress::v4({10, 0, 0, 2});
const auto kV6 = IpAddress::parse("fd00::1").value();
const auto kLinkLocal = IpAddress::parse("fe80::1").value();

template <typename T>
void append(Bytes& to, const T& value) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(&value);
  to.insert(to.end(), p, p + sizeof value);
}

void append_attribute(Bytes& to, unsigned short type, const Bytes& value) {
  append(to, rtattr{static_cast<unsigned short>(sizeof(rtattr) + value.size()), type});
  to.insert(to.end(), value.begin(), value.end());
  to.resize((to.size() + 3) & ~std::size_t{3});
}

Bytes message(std::uint16_t type, const Bytes& body) {
  Bytes out;
  append(out, nlmsghdr{static_cast<std::uint32_t>(sizeof(nlmsghdr) + body.size()), type, 0, 0, 0});
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct LinkMessage {
  unsigned flags = kRunning;
  const char* name = "eth7";
  std::uint32_t mtu = 1500;
  unsigned char family = AF_UNSPEC;
  unsigned index = kIndex;

  [[nodiscard]] Bytes bytes(std::uint16_t type = RTM_NEWLINK) const {
    ifinfomsg info{};
    info.ifi_family = family;
    info.ifi_index = static_cast<int>(index);
    info.ifi_flags = flags;
    Bytes body;
    append(body, info);
    if (name != nullptr) append_attribute(body, IFLA_IFNAME, Bytes(name, name + strlen(name) + 1));
    if (mtu != 0) {
      Bytes value;
      append(value, mtu);
      append_attribute(body, IFLA_MTU, value);
    }
    append_attribute(body, IFLA_ADDRESS, {2, 0, 0, 0, 0, 7});
    return message(type, body);
  }
};

Bytes address(const IpAddress& a, std::uint16_t type = RTM_NEWADDR, std::uint8_t prefix = 24,
              unsigned short attribute = IFA_ADDRESS) {
  ifaddrmsg info{};
  info.ifa_family = a.is_v4() ? AF_INET : AF_INET6;
  info.ifa_prefixlen = prefix;
  info.ifa_index = kIndex;
  Bytes body;
  append(body, info);
  const std::ptrdiff_t skip = a.is_v4() ? 12 : 0;
  append_attribute(body, attribute, Bytes(a.bytes().begin() + skip, a.bytes().end()));
  return message(type, body);
}

/// A table, and what its ports tell of each datagram.
struct Host {
  explicit Host(const char* name) : link{.name = name} {}

  std::vector<PortEvent> hears(const Bytes& datagram) {
    links.apply(datagram);
    auto now = devices_of(links);
    std::vector<PortEvent> out;
    for (const PortChange& c : changes(devices, now)) out.push_back(c.event);
    devices = std::move(now);
    return out;
  }
  [[nodiscard]] const Device& device() const { return devices.at(0); }

  LinkMessage link;
  LinkTable links;
  std::vector<Device> devices;
};

using Events = std::vector<PortEvent>;

/// A VLAN has the MAC of the interface that it is on, and librdmacm tells devices by GUID.
TEST(LinkTable, InterfacesOfOneMacAreDevicesOfDifferentGuids) {
  LinkTable links;
  links.apply(LinkMessage{}.bytes() + LinkMessage{.name = "eth7.10", .index = 9}.bytes());
  const auto devices = devices_of(links);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].guid, 0x0000'00ff'fe00'0007u);
  EXPECT_EQ(devices[1].guid, 0x0276'62ff'fe00'0009u);
}

TEST(LinkTable, ReadsLinksFromMessages) {
  LinkTable links;
  links.apply(LinkMessage{.mtu = 9000}.bytes() + address(kV4) + address(kV6));
  const Link& link = links.all().at(kIndex);
  EXPECT_EQ(link.name, "eth7");
  EXPECT_EQ(link.mtu, 9000u);
  EXPECT_EQ(link.mac, (Link::Mac{2, 0, 0, 0, 0, 7}));
  EXPECT_TRUE(link.enabled() && link.running() && !link.loopback());
  EXPECT_EQ(link.addresses, (std::vector<Link::Address>{{kV4, 24}, {kV6, 24}}));
}

TEST(LinkTable, DropsLinksWithTheirInterface) {
  LinkTable links;
  links.apply(LinkMessage{}.bytes() + address(kV4));
  links.apply(LinkMessage{}.bytes(RTM_DELLINK));
  EXPECT_TRUE(links.all().empty());
}

TEST(LinkTable, IgnoresWhatABridgeSaysOfItsPorts) {
  LinkTable links;
  links.apply(LinkMessage{}.bytes());
  links.apply(LinkMessage{.flags = 0, .family = AF_BRIDGE}.bytes());
  links.apply(LinkMessage{.family = AF_BRIDGE}.bytes(RTM_DELLINK));
  ASSERT_TRUE(links.all().contains(kIndex));
  EXPECT_TRUE(links.all().at(kIndex).running());
}

TEST(LinkTable, KeepsWhatAMessageDoesNotSay) {
  LinkTable links;
  links.apply(LinkMessage{}.bytes());
  links.apply(LinkMessage{.flags = IFF_UP, .name = nullptr, .mtu = 0}.bytes());
  const Link& link = links.all().at(kIndex);
  EXPECT_EQ(link.name, "eth7");
  EXPECT_EQ(link.mtu, 1500u);
  EXPECT_FALSE(link.running());
}

TEST(LinkTable, TakesTheLocalOneOfTwoAddresses) {
  ifaddrmsg info{};
  info.ifa_family = AF_INET;
  info.ifa_index = kIndex;
  Bytes body;
  append(body, info);
  append_attribute(body, IFA_ADDRESS, {10, 0, 0, 2});  // the peer's
  append_attribute(body, IFA_LOCAL, {10, 0, 0, 1});
  LinkTable links;
  links.apply(message(RTM_NEWADDR, body));
  EXPECT_EQ(links.all().at(kIndex).addresses.at(0).address, kV4);
}

TEST(LinkTable, KeepsAnAddressWhileOneOfItsPrefixesStays) {
  LinkTable links;
  links.apply(LinkMessage{}.bytes() + address(kV4) + address(kV4, RTM_NEWADDR, 32) + address(kV4));
  EXPECT_EQ(links.all().at(kIndex).addresses.size(), 2u);
  links.apply(address(kV4, RTM_DELADDR, 24));
  EXPECT_EQ(links.all().at(kIndex).addresses, (std::vector<Link::Address>{{kV4, 32}}));
}

/// Whatever its length says, nothing behind the end is looked at (the sanitizers see to that).
TEST(LinkTable, LeavesOutCutMessages) {
  const Bytes whole = LinkMessage{}.bytes() + address(kV4) + address(kV6);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    LinkTable links;
    links.apply(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)));
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned wrong : {0x00u, 0x01u, 0x7fu, 0xffu}) {
      Bytes damaged = whole;
      damaged[at] = static_cast<std::uint8_t>(wrong);
      LinkTable links;
      links.apply(damaged);
    }
  }
}

TEST(Ports, AreActiveWhilePacketsCanLeave) {
  Host host{"state"};
  EXPECT_EQ(host.hears(host.link.bytes() + address(kV4)),
            (Events{PortEvent::active, PortEvent::gid_change}));
  EXPECT_TRUE(host.device().up && host.device().listed);

  host.link.flags = IFF_UP;  // the cable is out
  EXPECT_EQ(host.hears(host.link.bytes()), Events{PortEvent::error});
  EXPECT_FALSE(host.device().up);
  EXPECT_TRUE(host.device().listed);
  EXPECT_EQ(host.hears(host.link.bytes()), Events{});

  host.link.flags = kRunning;
  EXPECT_EQ(host.hears(host.link.bytes()), Events{PortEvent::active});
  host.link.flags = IFF_RUNNING;  // "ip link set down"
  EXPECT_EQ(host.hears(host.link.bytes()), Events{PortEvent::error});
  EXPECT_FALSE(host.device().listed);
}

TEST(Ports, OfLoopbackNeedNoCarrier) {
  Host host{"loop"};
  host.link.flags = IFF_UP | IFF_LOOPBACK;
  host.hears(host.link.bytes() + address(kV4));
  EXPECT_TRUE(host.device().up);
}

/// Up to the last that is not empty.
std::vector<IpAddress> gids_of(const Device& device) {
  std::vector<IpAddress> out = device.gids;
  while (!out.empty() && out.back() == IpAddress{}) out.pop_back();
  return out;
}

TEST(Ports, TellOfTheirGids) {
  Host host{"gids"};
  host.hears(host.link.bytes() + address(kV4));
  EXPECT_EQ(host.hears(address(kV6)), Events{PortEvent::gid_change});
  EXPECT_EQ(gids_of(host.device()), (std::vector<IpAddress>{kV4, kV6}));
  EXPECT_EQ(host.hears(address(kV6)), Events{});  // its lifetime was renewed
  EXPECT_EQ(host.hears(address(kV4, RTM_DELADDR)), Events{PortEvent::gid_change});
  EXPECT_EQ(gids_of(host.device()), (std::vector<IpAddress>{IpAddress{}, kV6}));
  // Both in one go: one event.
  EXPECT_EQ(host.hears(address(kV4) + address(kOther)), Events{PortEvent::gid_change});
  EXPECT_EQ(gids_of(host.device()), (std::vector<IpAddress>{kV4, kV6, kOther}));
  // Gone and back before anybody looked: nothing has happened.
  EXPECT_EQ(host.hears(address(kV4, RTM_DELADDR) + address(kV4)), Events{});
}

TEST(Ports, ListLinkLocalAddressesFirst) {
  Host host{"order"};
  host.hears(host.link.bytes() + address(kV4) + address(kV6) + address(kLinkLocal));
  EXPECT_EQ(gids_of(host.device()), (std::vector<IpAddress>{kLinkLocal, kV6, kV4}));
}

TEST(Ports, OfAnInterfaceThatIsTakenAwayFail) {
  Host host{"gone"};
  host.hears(host.link.bytes() + address(kV4));
  EXPECT_EQ(host.hears(host.link.bytes(RTM_DELLINK)),
            (Events{PortEvent::error, PortEvent::gid_change, PortEvent::device_fatal}));
  // Another one of the same name is the same device.
  EXPECT_EQ(host.hears(host.link.bytes() + address(kV4)),
            (Events{PortEvent::active, PortEvent::gid_change}));
}

TEST(Ports, FollowTheMtuWithoutAnEvent) {
  Host host{"mtu"};
  host.hears(host.link.bytes() + address(kV4));
  EXPECT_EQ(host.device().active_mtu(), 1024);
  host.link.mtu = 9000;
  EXPECT_EQ(host.hears(host.link.bytes()), Events{});
  EXPECT_EQ(host.device().active_mtu(), 4096);
}

}  // namespace
}  // namespace verbena::host
