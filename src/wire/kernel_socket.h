#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include "wire/fd.h"

namespace verbena::wire {

/// socket(), past other preloaded libraries: rdma-core's librspreload would give us one of
/// librdmacm's sockets, which work through us. Descriptors that it didn't make it leaves alone.
[[nodiscard]] inline Fd open_kernel_socket(int family, int type, int protocol) {
  return Fd{static_cast<int>(::syscall(SYS_socket, family, type, protocol))};
}

}  // namespace verbena::wire
