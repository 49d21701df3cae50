#pragma once

// A TCP connection on 127.0.0.1 between two processes of one program.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "limits.h"

namespace limits {

class TcpListener {
 public:
  TcpListener() : fd_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    require(fd_ >= 0, "socket");
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    require(bind(fd_, address, size) == 0, "bind");
    require(getsockname(fd_, address, &size) == 0, "getsockname");
    require(listen(fd_, 1) == 0, "listen");
  }
  [[nodiscard]] int accept() const { return ready(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)); }
  [[nodiscard]] int connect() const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto* const address = reinterpret_cast<const sockaddr*>(&address_);
    require(fd >= 0 && ::connect(fd, address, sizeof address_) == 0, "connect");
    return ready(fd);
  }

 private:
  static int ready(int fd) {
    const int on = 1;
    require(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0,
            "TCP_NODELAY");
    return fd;
  }

  int fd_;
  sockaddr_in address_{};
};

}  // namespace limits
