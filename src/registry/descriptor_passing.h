#pragma once

// Descriptors that travel in a message between processes (SCM_RIGHTS).

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "system/fd.h"

namespace verbena::registry {

/// Room for one descriptor beside a message's bytes.
class DescriptorRoom {
 public:
  /// `message` carries `fd`.
  void send_with(msghdr& message, int fd) {
    attach(message);
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  /// Before recvmsg().
  void receive_with(msghdr& message) { attach(message); }
  /// After it. Empty: none came.
  [[nodiscard]] static Fd received(msghdr& message) {
    Fd received;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      int fd = -1;
      if (c->cmsg_len == CMSG_LEN(sizeof fd)) std::memcpy(&fd, CMSG_DATA(c), sizeof fd);
      received = Fd{fd};
    }
    return received;
  }

 private:
  void attach(msghdr& message) {
    message.msg_control = bytes_.data();
    message.msg_controllen = bytes_.size();
  }

  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof(int))> bytes_{};
};

}  // namespace verbena::registry
