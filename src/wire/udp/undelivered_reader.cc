#include "wire/udp/undelivered_reader.h"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

#include <cerrno>
#include <cstring>

#include "system/kernel_calls.h"

namespace verbena::wire {
namespace {

constexpr int kErrorQueue = 1 << 16;  // bytes of truesize; counts as receive buffer

/// nullopt: not a matter of this frame's destination (a path's MTU, a send that failed here).
std::optional<int> unreachable_code(const sock_extended_err& e) {
  const bool from_network = e.ee_origin == SO_EE_ORIGIN_ICMP || e.ee_origin == SO_EE_ORIGIN_ICMP6;
  const auto code = static_cast<int>(e.ee_errno);
  const bool nobody = code == ECONNREFUSED || code == EHOSTUNREACH || code == ENETUNREACH;
  if (!from_network || !nobody) return std::nullopt;
  return code;
}

std::optional<int> code_in(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    const bool v4 = c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR;
    const bool v6 = c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR;
    sock_extended_err error{};
    if ((!v4 && !v6) || c->cmsg_len < CMSG_LEN(sizeof error)) continue;
    std::memcpy(&error, CMSG_DATA(c), sizeof error);
    return unreachable_code(error);
  }
  return std::nullopt;
}

}  // namespace

bool tell_undelivered(const Fd& fd, const LocalAddress& local) {
  const int on = 1;
  (void)kernel::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kErrorQueue, sizeof kErrorQueue);
  const int rc = local.address.is_v4()
                     ? kernel::setsockopt(fd.get(), IPPROTO_IP, IP_RECVERR, &on, sizeof on)
                     : kernel::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on);
  return rc == 0;
}

std::optional<Undelivered> UndeliveredReader::next(const SendSocket& socket) {
  for (;;) {
    SocketAddress destination;
    iovec piece{bytes_.data(), bytes_.size()};
    alignas(cmsghdr) std::array<std::uint8_t, 512> control{};
    msghdr message{};
    message.msg_name = destination.get();
    message.msg_namelen = SocketAddress::capacity();
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const auto got = kernel::recvmsg(socket.fd.get(), &message, MSG_ERRQUEUE | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    const auto code = code_in(message);
    if (!code) continue;
    return Undelivered{.source = socket.local.address,
                       .destination = destination.address(),
                       .code = *code,
                       .bytes = std::span{bytes_}.first(static_cast<std::size_t>(got))};
  }
}

}  // namespace verbena::wire
