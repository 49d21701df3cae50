#include "tools/doctor/host_check.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/doctor/child.h"
#include "tools/doctor/text.h"

namespace verbena::doctor {
namespace {

constexpr auto kPeerPatience = std::chrono::milliseconds{1000};
constexpr auto kPacketPatience = std::chrono::milliseconds{1000};
constexpr auto kIcmpPatience = std::chrono::milliseconds{300};
// The kernel asks three times, a second apart, for a neighbour's MAC.
constexpr auto kNeighbourPatience = std::chrono::milliseconds{3500};

Mend name_the_rule(const std::string& where) { return {"verbena doctor", true, where}; }

Mend listen_there(const WayToHost& way) { return {"verbena doctor --listen", false, way.host}; }

bool is_answered(const WayToHost& way) {
  return way.connection.answer == Answer::established || way.connection.answer == Answer::rejected;
}

bool is_rewritten(const WayToHost& way) {
  const auto& news = way.after.news ? way.after.news : way.before.news;
  if (news && news->you != way.local) return true;
  return way.before.news && way.after.news &&
         way.after.news->icrc_errors > way.before.news->icrc_errors;
}

Finding nat_failure(const WayToHost& way) {
  const auto& news = way.after.news ? way.after.news : way.before.news;
  const std::string seen =
      news->you != way.local
          ? fmt::format("our address is {}, and {} sees {}", way.local, way.host, news->you)
          : fmt::format("{} gets our packets with a wrong ICRC", way.host);
  return failure("nat", seen,
                 "The ICRC covers the addresses, so HOST drops every packet. The gateway that "
                 "rewrites them must leave UDP port 4791 alone, and HOST needs a route to us.",
                 {{"nft insert rule ip nat postrouting udp dport 4791 accept", true,
                   "the gateway (table and chain as there)"}});
}

/// Nobody answered rdma_connect, and there is no NAT: what else says something?
Finding port_failure(const WayToHost& way) {
  const std::string port = "UDP port 4791 of " + way.host;
  const std::string unreached = "Programs can't connect to it.";
  const bool listens = way.before.news.has_value();
  switch (way.roce_port) {
    case Fate::held_back:
      return failure("host-4791", "this host's firewall holds packets to " + port + " back",
                     unreached, {name_the_rule("here")});
    case Fate::prohibited:
      return failure("host-4791", "a firewall rejects packets to " + port, unreached,
                     {name_the_rule(way.host)});
    case Fate::no_host:
      return failure("host-4791", fmt::format("no host answers at {}", way.address),
                     unreached + " Check the address, the cable and the route: `ip route get " +
                         way.address + "`.",
                     {});
    case Fate::refused:
      if (!listens) {
        return failure("host-4791", port + " is closed: no program there has a device open",
                       unreached, {listen_there(way)});
      }
      return failure("host-4791", "a firewall rejects packets to " + port, unreached,
                     {name_the_rule(way.host)});
    default:
      break;
  }
  if (listens && way.after.news &&
      way.after.news->frames_received > way.before.news->frames_received) {
    return failure("host-4791",
                   fmt::format("{} gets our packets, and its answers don't arrive", way.host),
                   unreached + " A firewall of this host drops them, or one on the way.",
                   {name_the_rule("here")});
  }
  const ConnectionProbe& c = way.connection;
  if (c.answer == Answer::none && !c.problem.empty() && c.error != ETIMEDOUT) {
    return failure("host-4791", "this host can't connect: " + c.problem, unreached, {});
  }
  const bool alive = listens || way.before.refused;
  return failure(
      "host-4791",
      fmt::format("packets to {} vanish{}", port, alive ? ", and the host itself answers" : ""),
      unreached +
          (alive ? " A firewall drops them." : " A firewall drops them, or the host is down."),
      {name_the_rule(way.host)});
}

std::string interface_with(const std::string& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner{list, &freeifaddrs};
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    Address own;
    if (i->ifa_addr->sa_family == AF_INET)
      std::memcpy(&own.bytes, i->ifa_addr, sizeof(sockaddr_in));
    if (i->ifa_addr->sa_family == AF_INET6) {
      std::memcpy(&own.bytes, i->ifa_addr, sizeof(sockaddr_in6));
    }
    if (own.bytes.ss_family != AF_UNSPEC && own.text() == address) return i->ifa_name;
  }
  return "";
}

Finding no_device_failure(const WayToHost& way) {
  return failure("host-4791",
                 fmt::format("packets to {} leave from {}, where no device is ({})", way.host,
                             way.local, way.connection.problem),
                 "Programs can't connect to it. `verbena devices` says why there is none, and what "
                 "to use instead.",
                 {});
}

std::string sizes_text(const WayToHost& way, auto wanted) {
  std::vector<std::string> sizes;
  for (const Probe& probe : way.path) {
    if (wanted(probe)) sizes.push_back(std::to_string(probe.bytes));
  }
  return listed(sizes);
}

bool arrived(const Probe& probe) {
  return probe.fate == Fate::returned || probe.fate == Fate::refused;
}

/// Quick questions first: what ICMP says of a short datagram needs no connection.
void ask(WayToHost& way, const Address& host, const Address& doctor) {
  constexpr std::uint32_t kShort = 0;  // too short for RoCE: HOST counts it as malformed
  const Address roce = host.at_port(kRocePort);
  const auto fate_of_datagram = [&](std::chrono::milliseconds patience) {
    return probe_udp(roce, {kShort}, patience).front().fate;
  };
  way.roce_port = fate_of_datagram(kIcmpPatience);
  way.before = ask_peer(doctor, kPeerPatience);
  if (way.roce_port != Fate::nothing) return;
  way.connection = probe_in_child(way.host, doctor.port());
  if (is_answered(way) || way.connection.answer == Answer::no_device) return;
  if (way.before.news) {
    way.after = ask_peer(doctor, kPeerPatience);
  } else if (!way.before.refused) {
    way.roce_port = fate_of_datagram(kNeighbourPatience);
  }
}

}  // namespace

Findings judge_port(const WayToHost& way) {
  if (way.connection.answer == Answer::no_device) return {no_device_failure(way)};
  if (!is_answered(way)) {
    return {is_rewritten(way) ? nat_failure(way) : port_failure(way)};
  }
  Findings found{fine("host-4791", fmt::format("{} ({}) answers {} by UDP port 4791", way.host,
                                               way.address, way.connection.device))};
  if (way.before.news) {
    found.push_back(fine("nat", fmt::format("{} sees our packets as they left", way.host)));
  } else {
    found.push_back(fine("nat", fmt::format("nothing rewrites our packets. For more checks, run "
                                            "`verbena doctor --listen` on {}",
                                            way.host)));
  }
  return found;
}

Finding judge_path(const WayToHost& way) {
  const auto fits = std::ranges::find_if(way.path, arrived);
  if (way.path.empty() ||
      (fits == way.path.end() &&
       std::ranges::none_of(way.path, [](const Probe& p) { return p.fate == Fate::too_big; }))) {
    return fine("host-mtu", fmt::format("can't be measured: {} answers no datagram. Run `verbena "
                                        "doctor --listen` there",
                                        way.host));
  }
  if (fits == way.path.begin()) {
    return fine("host-mtu", fmt::format("packets of {} bytes arrive, as large as our device sends",
                                        fits->bytes));
  }
  std::uint32_t limit = fits != way.path.end() ? fits->bytes : 0;
  std::string told;
  for (const Probe& probe : way.path) {
    if (probe.fate != Fate::too_big || probe.mtu == 0) continue;
    limit = probe.mtu;
    told = fmt::format(": a router says that its next link carries {}", probe.mtu);
  }
  return failure(
      "host-mtu",
      fmt::format("packets of {} bytes don't reach {}{}",
                  sizes_text(way, [](const Probe& p) { return !arrived(p); }), way.host, told),
      "Messages of more than one small packet end with RETRY_EXC_ERR.",
      {{fmt::format("ip link set dev {} mtu {}", way.interface, limit), true}});
}

Findings judge_messages(const WayToHost& way) {
  const ConnectionProbe& c = way.connection;
  if (c.answer != Answer::established) return {};
  if (c.small_back && c.large_back) {
    return {fine("host-data", fmt::format("messages went to {} and came back by RDMA ({})",
                                          way.host, c.way.empty() ? c.device : c.way))};
  }
  std::vector<Mend> mends = judge_path(way).mends;
  if (mends.empty()) mends.push_back(name_the_rule(way.host));
  return {failure("host-data", fmt::format("connected to {}, but {}", way.host, c.problem),
                  c.small_back ? "Packets of full size get lost." : "Packets get lost.",
                  std::move(mends))};
}

std::vector<std::uint32_t> packet_sizes(std::uint32_t mtu) {
  // IP (40), UDP (8), BTH and the longest extension headers (32), ICRC (4): a device has this MTU
  // if its interface carries that much.
  constexpr std::uint32_t kHeaders = 84, kEthernet = 1500;
  std::vector<std::uint32_t> sizes;
  for (; mtu >= 256; mtu /= 2) {
    sizes.push_back(mtu + kHeaders);
    // What most links carry, for a better command than that of the next size.
    if (mtu + kHeaders > kEthernet && mtu / 2 + kHeaders < kEthernet) sizes.push_back(kEthernet);
  }
  return sizes;
}

Findings check_host(const std::string& host, std::uint16_t port) {
  constexpr std::uint32_t kUsual = 1024;
  const Resolved named = resolve(host);
  if (!named.address) {
    return {failure("host", fmt::format("{}: {}", host, named.problem),
                    "There is no address to connect to. Use the address, or give it a name.",
                    {{fmt::format("echo ADDRESS {} >> /etc/hosts", host), true}})};
  }
  WayToHost way;
  way.host = host;
  way.address = named.address->text();
  const Route route = route_to(*named.address);
  if (route.error == EINVAL) {
    return {failure("host", way.address + " needs the name of its interface",
                    "It is a link-local address, of which each interface may have one.",
                    {{fmt::format("verbena doctor {}%INTERFACE", way.address)}})};
  }
  if (route.error != 0) {
    return {failure("host",
                    fmt::format("no route to {}: {}", way.address, std::strerror(route.error)),
                    "Packets to it can't leave.",
                    {{fmt::format("ip route add {} via GATEWAY", way.address), true}})};
  }
  way.local = route.local.text();
  way.interface = interface_with(way.local);
  const Address doctor = named.address->at_port(port);
  ask(way, *named.address, doctor);
  Findings found = judge_port(way);
  if (way.roce_port == Fate::no_host || way.connection.answer == Answer::no_device) return found;
  const std::uint32_t mtu = way.connection.mtu != 0 ? way.connection.mtu : kUsual;
  way.path = probe_udp(doctor, packet_sizes(mtu), kPacketPatience);
  found.push_back(judge_path(way));
  for (Finding& f : judge_messages(way)) found.push_back(std::move(f));
  return found;
}

}  // namespace verbena::doctor
