#pragma once

// How processes of one user on one host know each other without a key. The receiver listens on an
// abstract Unix socket, which exists in this network namespace only and goes with its process. The
// kernel tells both ends which user the other one is (SO_PEERCRED). The receiver hands out a secret
// that both then prove to each other over RDMA.
//
// The socket stays open during the transfer: its end tells that the other process is dead.

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/transfer/descriptor.h"
#include "tools/transfer/proof.h"

namespace verbena::transfer {

/// Of one sender.
struct Ticket {
  std::uint32_t number = 0;
  Secret secret;
  Descriptor socket;  // readable: the other process is gone
};

class SameUserDoor {
 public:
  /// Of the receiver that listens on this port. Throws std::system_error.
  explicit SameUserDoor(std::uint16_t port);

  /// For poll(2): somebody knocks.
  [[nodiscard]] int fd() const { return listener_.get(); }
  /// Gives a process of our user a ticket. Others are turned away.
  void answer();
  /// The ticket of that number, which is good once.
  [[nodiscard]] std::optional<Ticket> take(std::uint32_t number);

 private:
  Descriptor listener_;
  std::uint32_t last_number_ = 0;
  std::vector<Ticket> tickets_;  // of senders that haven't connected yet
};

/// nullopt: on this host no process of our user receives on this port.
[[nodiscard]] std::optional<Ticket> ask_same_user(std::uint16_t port);

/// True once the process at the other end of the socket has ended.
[[nodiscard]] bool is_gone(const Descriptor& socket);

}  // namespace verbena::transfer
