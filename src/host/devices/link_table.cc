#include "host/devices/link_table.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace verbena::host {

namespace {

using Bytes = std::span<const std::uint8_t>;

/// Messages and attributes begin at multiples of four.
constexpr std::size_t aligned(std::size_t n) { return (n + 3) & ~std::size_t{3}; }

/// The fixed part that a message or an attribute begins with. nullopt: it is cut short.
template <typename T>
std::optional<T> head(Bytes bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// Takes the first part of `bytes` off, as its header says how long it is. `Header` has its length
/// in the field `length`. nullopt: the end, or nonsense.
template <typename Header, typename Length>
std::optional<std::pair<Header, Bytes>> take(Bytes& bytes, Length Header::*length) {
  const auto header = head<Header>(bytes);
  if (!header) return std::nullopt;
  const std::size_t size = (*header).*length;
  if (size < sizeof(Header) || size > bytes.size()) return std::nullopt;
  const Bytes body = bytes.subspan(0, size);
  bytes = bytes.subspan(std::min(aligned(size), bytes.size()));
  return std::pair{*header, body.subspan(std::min(aligned(sizeof(Header)), body.size()))};
}

/// Calls f(type, value) for each attribute behind a message's fixed part.
template <typename Fixed, typename F>
void for_each_attribute(Bytes body, F f) {
  Bytes rest = body.subspan(std::min(aligned(sizeof(Fixed)), body.size()));
  while (const auto attribute = take(rest, &rtattr::rta_len)) {
    f(attribute->first.rta_type, attribute->second);
  }
}

std::optional<IpAddress> address_of(unsigned char family, Bytes value) {
  if (family == AF_INET) {
    const auto four = head<std::array<std::uint8_t, 4>>(value);
    return four ? std::optional{IpAddress::v4(*four)} : std::nullopt;
  }
  const auto sixteen = head<IpAddress::Bytes>(value);
  return sixteen ? std::optional{IpAddress{*sixteen}} : std::nullopt;
}

}  // namespace

bool Link::enabled() const { return (flags & IFF_UP) != 0; }
bool Link::loopback() const { return (flags & IFF_LOOPBACK) != 0; }
bool Link::running() const { return enabled() && (loopback() || (flags & IFF_RUNNING) != 0); }

void LinkTable::apply(Bytes messages) {
  while (const auto message = take(messages, &nlmsghdr::nlmsg_len)) {
    const auto& [header, body] = *message;
    switch (header.nlmsg_type) {
      case RTM_NEWLINK:
      case RTM_DELLINK:
        apply_link(header.nlmsg_type, body);
        break;
      case RTM_NEWADDR:
      case RTM_DELADDR:
        apply_address(header.nlmsg_type, body);
        break;
      default:
        break;
    }
  }
}

void LinkTable::apply_link(std::uint16_t type, Bytes body) {
  const auto info = head<ifinfomsg>(body);
  // Bridges tell of their ports with messages of the same type and a family of their own.
  if (!info || info->ifi_family != AF_UNSPEC) return;
  const auto index = static_cast<unsigned>(info->ifi_index);
  if (type == RTM_DELLINK) {
    links_.erase(index);
    return;
  }
  Link& link = links_[index];
  link.flags = info->ifi_flags;
  // What isn't said has not changed: some drivers' messages are short.
  for_each_attribute<ifinfomsg>(body, [&](unsigned attribute, Bytes value) {
    if (attribute == IFLA_IFNAME) {
      const auto end = std::find(value.begin(), value.end(), 0);
      link.name.assign(value.begin(), end);
    } else if (attribute == IFLA_MTU) {
      link.mtu = head<std::uint32_t>(value).value_or(link.mtu);
    } else if (attribute == IFLA_ADDRESS && value.size() == Link::Mac{}.size()) {
      link.mac = head<Link::Mac>(value);
    }
  });
}

void LinkTable::apply_address(std::uint16_t type, Bytes body) {
  const auto info = head<ifaddrmsg>(body);
  if (!info || (info->ifa_family != AF_INET && info->ifa_family != AF_INET6)) return;
  std::optional<IpAddress> local;
  std::optional<IpAddress> other;  // of a point-to-point link the peer's
  for_each_attribute<ifaddrmsg>(body, [&](unsigned attribute, Bytes value) {
    if (attribute == IFA_LOCAL) local = address_of(info->ifa_family, value);
    if (attribute == IFA_ADDRESS) other = address_of(info->ifa_family, value);
  });
  if (!local) local = other;
  if (!local) return;
  const Link::Address address{*local, info->ifa_prefixlen};
  if (type == RTM_DELADDR) {
    const auto link = links_.find(info->ifa_index);
    if (link != links_.end()) std::erase(link->second.addresses, address);
    return;
  }
  auto& addresses = links_[info->ifa_index].addresses;
  const bool known = std::find(addresses.begin(), addresses.end(), address) != addresses.end();
  if (!known) addresses.push_back(address);
}

}  // namespace verbena::host
