#pragma once

// Descriptors that travel in a message between processes (SCM_RIGHTS).

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "system/fd.h"

namespace verbena::registry {

/// Room for a few descriptors beside a message's bytes.
class DescriptorRoom {
 public:
  static constexpr std::size_t kMost = 4;
  using Received = std::array<Fd, kMost>;

  /// `message` carries the descriptors, kMost at most.
  void send_with(msghdr& message, std::span<const int> fds) {
    if (fds.empty()) return;
    attach(message, CMSG_SPACE(fds.size_bytes()));
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  /// Before recvmsg().
  void receive_with(msghdr& message) { attach(message, bytes_.size()); }
  /// After it: those that came, the rest empty. Fewer come where this process has no room for more.
  [[nodiscard]] static Received received(msghdr& message) {
    Received received;
    std::size_t count = 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t bytes = c->cmsg_len - CMSG_LEN(0);
      for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
        Fd owned{fd};
        if (count < kMost) received[count++] = std::move(owned);
      }
    }
    return received;
  }

 private:
  void attach(msghdr& message, std::size_t bytes) {
    message.msg_control = bytes_.data();
    message.msg_controllen = bytes;
  }

  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(kMost * sizeof(int))> bytes_{};
};

}  // namespace verbena::registry
