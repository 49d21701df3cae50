#pragma once

// Two processes of one host with a connection between them.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <stdexcept>

#include "rdma++/rdma.h"

namespace verbena::test {

/// `serve` runs in a process of its own, forked before either has a GPU. Throws what fails here.
template <typename Serve, typename Drive>
void run_pair(std::uint16_t port, const Serve& serve, const Drive& drive) {
  const char* const where = "127.0.0.1";
  std::array<int, 2> listening{};
  if (pipe(listening.data()) != 0) throw std::runtime_error{"pipe"};
  const pid_t other = fork();
  if (other == 0) {
    close(listening[0]);
    rdma::Listener listener{rdma::SocketAddress::of(where, port)};
    if (write(listening[1], "!", 1) != 1) throw std::runtime_error{"write"};
    auto conn = listener.accept();
    serve(conn);
    return;
  }
  close(listening[1]);
  char go = 0;
  if (read(listening[0], &go, 1) != 1) throw std::runtime_error{"the other process doesn't listen"};
  {
    auto conn = rdma::Connection::connect(where, port);
    drive(conn);
  }
  int status = 0;
  if (waitpid(other, &status, 0) != other || status != 0) {
    throw std::runtime_error{"the other process failed"};
  }
}

}  // namespace verbena::test
