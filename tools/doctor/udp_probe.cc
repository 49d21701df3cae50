#include "tools/doctor/udp_probe.h"

#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace verbena::doctor {
namespace {

using ProbeClock = std::chrono::steady_clock;

// What our datagrams begin with, followed by the packet's size.
constexpr std::array<char, 8> kMark{'v', 'b', 'd', 'o', 'c', 't', 'o', 'r'};
constexpr std::size_t kHead = kMark.size() + sizeof(std::uint32_t);
constexpr std::uint32_t kLongestPacket = 9216;

std::uint32_t headers_of(bool v4) { return v4 ? 28 : 48; }

/// The size in a datagram of ours. nullopt: it is none, or too little is quoted.
std::optional<std::uint32_t> size_in(const std::vector<char>& bytes, std::size_t length) {
  if (length < kHead || std::memcmp(bytes.data(), kMark.data(), kMark.size()) != 0) {
    return std::nullopt;
  }
  std::uint32_t size = 0;
  std::memcpy(&size, bytes.data() + kMark.size(), sizeof size);
  return size;
}

std::vector<char> datagram_of(std::uint32_t packet, bool v4) {
  const std::uint32_t headers = headers_of(v4);
  std::vector<char> bytes(packet > headers + kHead ? packet - headers : kHead);
  std::memcpy(bytes.data(), kMark.data(), kMark.size());
  std::memcpy(bytes.data() + kMark.size(), &packet, sizeof packet);
  return bytes;
}

class Prober {
 public:
  Prober(const Address& to, const std::vector<std::uint32_t>& sizes)
      : v4_{to.is_v4()}, socket_{to.bytes.ss_family, SOCK_DGRAM} {
    for (const std::uint32_t size : sizes) probes_.push_back({size});
    never_fragment(socket_, v4_);
    socket_.set(v4_ ? IPPROTO_IP : IPPROTO_IPV6, v4_ ? IP_RECVERR : IPV6_RECVERR, 1);
    if (connect(socket_.fd(), to.get(), to.size()) != 0) {
      for (Probe& probe : probes_) probe.fate = fate_of(errno, std::nullopt, v4_);
      return;
    }
    for (Probe& probe : probes_) send_one(probe);
  }

  std::vector<Probe> wait(ProbeClock::time_point until) {
    while (std::ranges::any_of(probes_, [](const Probe& p) { return p.fate == Fate::nothing; })) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - ProbeClock::now()).count();
      if (left < 0) break;
      pollfd entry{socket_.fd(), POLLIN, 0};
      if (poll(&entry, 1, static_cast<int>(left) + 1) <= 0) continue;
      if ((entry.revents & POLLERR) != 0) take_error();
      if ((entry.revents & POLLIN) != 0) take_answer();
    }
    return probes_;
  }

 private:
  void send_one(Probe& probe) {
    const auto bytes = datagram_of(probe.bytes, v4_);
    // An earlier packet's error comes first, once.
    for (int attempt = 0; attempt < 3; ++attempt) {
      if (send(socket_.fd(), bytes.data(), bytes.size(), 0) >= 0) return;
      if (errno == EMSGSIZE || errno == EPERM) break;
      take_error();
    }
    if (probe.fate == Fate::nothing) probe.fate = fate_of(errno, std::nullopt, v4_);
  }

  void settle(std::optional<std::uint32_t> size, Fate fate, std::uint32_t mtu) {
    for (Probe& probe : probes_) {
      if (probe.fate != Fate::nothing || (size && probe.bytes != *size)) continue;
      probe.fate = fate;
      probe.mtu = fate == Fate::too_big ? mtu : 0;
      if (!size) return;  // one of them, we don't know which
    }
  }

  void take_answer() {
    std::vector<char> bytes(kLongestPacket);
    const ssize_t n = recv(socket_.fd(), bytes.data(), bytes.size(), 0);
    if (n > 0) settle(size_in(bytes, static_cast<std::size_t>(n)), Fate::returned, 0);
  }

  void take_error() {
    std::vector<char> bytes(kLongestPacket);
    alignas(cmsghdr) std::array<char, 512> control{};
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = recvmsg(socket_.fd(), &message, MSG_ERRQUEUE | MSG_DONTWAIT);
    if (n < 0) return;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      const bool ours = (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
                        (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR);
      if (!ours) continue;
      sock_extended_err error{};
      std::memcpy(&error, CMSG_DATA(c), sizeof error);
      const bool icmp =
          error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
      const auto answer =
          icmp ? std::optional{IcmpAnswer{error.ee_type, error.ee_code}} : std::nullopt;
      settle(size_in(bytes, static_cast<std::size_t>(n)),
             fate_of(static_cast<int>(error.ee_errno), answer, v4_), error.ee_info);
    }
  }

  bool v4_;
  Socket socket_;
  std::vector<Probe> probes_;
};

}  // namespace

std::vector<Probe> probe_udp(const Address& to, const std::vector<std::uint32_t>& sizes,
                             std::chrono::milliseconds patience) {
  return Prober{to, sizes}.wait(ProbeClock::now() + patience);
}

void never_fragment(const Socket& socket, bool v4) {
  // "Probe": a size that the kernel believes to be too big leaves, too.
  if (v4) {
    socket.set(IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
  } else {
    socket.set(IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
    socket.set(IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);  // IPv4 over it
  }
}

void return_datagram(const Socket& socket) {
  std::vector<char> bytes(kLongestPacket);
  Address from;
  socklen_t size = sizeof from.bytes;
  const ssize_t n = recvfrom(socket.fd(), bytes.data(), bytes.size(), 0, from.get(), &size);
  if (n <= 0 || !size_in(bytes, static_cast<std::size_t>(n))) return;
  // What doesn't leave is missed by the other side, which says so.
  (void)sendto(socket.fd(), bytes.data(), static_cast<std::size_t>(n), 0, from.get(), size);
}

Fate fate_of(int error, const std::optional<IcmpAnswer>& icmp, bool v4) {
  if (icmp && v4 && icmp->type == ICMP_DEST_UNREACH) {
    switch (icmp->code) {
      case ICMP_PORT_UNREACH:
        return Fate::refused;
      case ICMP_FRAG_NEEDED:
        return Fate::too_big;
      case ICMP_NET_ANO:
      case ICMP_HOST_ANO:
      case ICMP_PKT_FILTERED:
        return Fate::prohibited;
      default:
        return Fate::no_host;
    }
  }
  if (icmp && !v4 && icmp->type == ICMP6_PACKET_TOO_BIG) return Fate::too_big;
  if (icmp && !v4 && icmp->type == ICMP6_DST_UNREACH) {
    if (icmp->code == ICMP6_DST_UNREACH_NOPORT) return Fate::refused;
    return icmp->code == ICMP6_DST_UNREACH_ADMIN ? Fate::prohibited : Fate::no_host;
  }
  switch (error) {
    case EMSGSIZE:
      return Fate::too_big;
    case EPERM:
      return Fate::held_back;
    case ECONNREFUSED:
      return Fate::refused;
    case EHOSTUNREACH:
    case ENETUNREACH:
      return Fate::no_host;
    default:
      return Fate::nothing;
  }
}

}  // namespace verbena::doctor
