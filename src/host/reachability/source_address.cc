#include "host/reachability/source_address.h"

#include <sys/socket.h>

#include <cerrno>

#include "packet/frame.h"
#include "system/fd.h"
#include "system/kernel_calls.h"
#include "system/system_error.h"
#include "wire/udp/socket_address.h"

namespace verbena::host {

Result<IpAddress> source_address(const IpAddress& destination, unsigned interface) {
  const int family = destination.is_v4() ? AF_INET : AF_INET6;
  const Fd fd = Fd{kernel::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!fd) return system_error(errno, "socket");
  // Connecting a UDP socket sends nothing, and asks the routing table.
  const wire::SocketAddress peer{destination, packet::kRocePort, interface};
  wire::SocketAddress local;
  socklen_t size = wire::SocketAddress::capacity();
  if (kernel::connect(fd.get(), peer.get(), peer.size()) != 0 ||
      kernel::getsockname(fd.get(), local.get(), &size) != 0) {
    return system_error(errno, "no way to " + destination.text());
  }
  return local.address();
}

}  // namespace verbena::host
