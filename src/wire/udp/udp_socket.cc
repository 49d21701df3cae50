#include "wire/udp/udp_socket.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "packet/frame.h"
#include "system/fd.h"
#include "system/kernel_calls.h"
#include "system/system_error.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

namespace verbena::wire {
namespace {

bool set(const Fd& fd, int level, int option, int value) {
  return kernel::setsockopt(fd.get(), level, option, &value, sizeof value) == 0;
}

Result<Fd> open_udp(const LocalAddress& local) {
  const int family = local.address.is_v4() ? AF_INET : AF_INET6;
  Fd fd = Fd{kernel::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP)};
  if (!fd) {
    return system_error(errno, "socket for UDP at " + local.address.text(),
                        "raise the limit of open files (ulimit -n) if it is reached");
  }
  if (family == AF_INET6 && !set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)) {
    return system_error(errno, "setsockopt IPV6_V6ONLY at " + local.address.text());
  }
  return fd;
}

bool bind_to(const Fd& fd, const LocalAddress& local, std::uint16_t port) {
  const SocketAddress address{local.address, port, local.interface};
  return kernel::bind(fd.get(), address.get(), address.size()) == 0;
}

Error cannot_bind(int code, const LocalAddress& local, std::uint16_t port) {
  const auto what = "bind UDP " + text_of(local.address, port);
  switch (code) {
    case EADDRINUSE:
      return system_error(code, what,
                          "the port belongs to another user's Verbena processes (they share it "
                          "within one user only), to the kernel's rxe (`rdma link`), or to "
                          "another program (`ss -ulnp sport = 4791`): end it, or use another "
                          "address, or a network of your own (`verbena netns -- COMMAND`)");
    case EADDRNOTAVAIL:
      return system_error(code, what,
                          "no interface has this address, or it is still tentative (`ip addr`)");
    default:
      return system_error(code, what);
  }
}

bool attach_drop_all(const Fd& fd) {
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  return kernel::setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

bool set_up_receiving(const Fd& fd, const LocalAddress& local) {
  // What we can't do without. rxe sends checksum 0 on IPv6.
  const bool done = local.address.is_v4()
                        ? set(fd, IPPROTO_IP, IP_RECVTOS, 1) && set(fd, IPPROTO_IP, IP_RECVTTL, 1)
                        : set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) &&
                              set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1) &&
                              set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
  // Faster or better informed with these, right without them.
  (void)set(fd, IPPROTO_UDP, UDP_GRO, 1);
  (void)set(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
  (void)set(fd, SOL_SOCKET, SO_RCVBUF, kReceiveBuffer);
  return done;
}

bool join(const Fd& fd, const LocalAddress& group) {
  const SocketAddress address{group.address, 0, group.interface};
  group_req request{};
  request.gr_interface = group.interface;
  std::memcpy(&request.gr_group, address.get(), address.size());
  const int level = group.address.is_v4() ? IPPROTO_IP : IPPROTO_IPV6;
  return kernel::setsockopt(fd.get(), level, MCAST_JOIN_GROUP, &request, sizeof request) == 0;
}

/// Multicast leaves by the interface that has the address, whatever the routes say.
bool choose_multicast_interface(const Fd& fd, const LocalAddress& local) {
  if (!local.address.is_v4()) {
    return set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(local.interface));
  }
  ip_mreqn request{};
  request.imr_ifindex = static_cast<int>(local.interface);
  return kernel::setsockopt(fd.get(), IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request) == 0;
}

}  // namespace

Result<Fd> open_multicast_socket(const LocalAddress& group) {
  auto opened = open_udp(group);
  if (!opened) return opened;
  Fd fd = std::move(opened).value();
  const bool v4 = group.address.is_v4();
  // Not SO_REUSEPORT: other users' processes may be in the group, too.
  const bool set_up =
      set(fd, SOL_SOCKET, SO_REUSEADDR, 1) && set_up_receiving(fd, group) &&
      (v4 ? set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0)
          : set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0));  // not what others joined
  if (!set_up) {
    return system_error(errno, "setsockopt at UDP " + text_of(group.address, packet::kRocePort));
  }
  if (!bind_to(fd, group, packet::kRocePort)) return cannot_bind(errno, group, packet::kRocePort);
  if (!join(fd, group)) {
    return system_error(errno, "join " + group.address.text(),
                        "the interface may have no multicast (`ip link`), or the process is in "
                        "too many groups (net.ipv4.igmp_max_memberships)");
  }
  return fd;
}

Result<Fd> open_receive_socket(const LocalAddress& local) {
  auto opened = open_udp(local);
  if (!opened) return opened;
  Fd fd = std::move(opened).value();

  if (!set(fd, SOL_SOCKET, SO_REUSEPORT, 1) || !set_up_receiving(fd, local)) {
    return system_error(errno, "setsockopt at UDP " + text_of(local.address, packet::kRocePort));
  }
  if (!bind_to(fd, local, packet::kRocePort)) {
    return cannot_bind(errno, local, packet::kRocePort);
  }
  return fd;
}

Result<Fd> open_send_socket(const LocalAddress& local, std::uint16_t port) {
  auto opened = open_udp(local);
  if (!opened) return opened;
  Fd fd = std::move(opened).value();

  const bool set_up =
      attach_drop_all(fd) &&
      (local.address.is_v4() ? set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
                             : set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO));
  if (!set_up) {
    return system_error(errno, "setsockopt at UDP " + text_of(local.address, port));
  }
  if (local.interface != 0) (void)choose_multicast_interface(fd, local);
  (void)set(fd, SOL_SOCKET, SO_RCVBUF, 0);
  (void)set(fd, SOL_SOCKET, SO_SNDBUF, kSendBuffer);

  if (!bind_to(fd, local, port)) return cannot_bind(errno, local, port);
  return fd;
}

std::uint32_t receive_buffer(const Fd& fd) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  const int rc = kernel::getsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &bytes, &size);
  return rc == 0 && bytes > 0 ? static_cast<std::uint32_t>(bytes) : 0;
}

int path_mtu(const LocalAddress& local, const IpAddress& destination) {
  // Only a connected socket tells, and ours must not be connected.
  auto opened = open_udp(local);
  if (!opened) return 0;
  const Fd& fd = *opened;
  const SocketAddress to{destination, packet::kRocePort, local.interface};
  if (!bind_to(fd, local, 0) || kernel::connect(fd.get(), to.get(), to.size()) != 0) return 0;
  int mtu = 0;
  socklen_t size = sizeof mtu;
  const bool v4 = local.address.is_v4();
  const int rc = kernel::getsockopt(fd.get(), v4 ? IPPROTO_IP : IPPROTO_IPV6,
                                    v4 ? IP_MTU : IPV6_MTU, &mtu, &size);
  return rc == 0 ? mtu : 0;
}

}  // namespace verbena::wire
