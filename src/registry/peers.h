#pragma once

// Connections to the other processes of the registry: hands the table to joiners, passes messages
// on, and sees deaths. Nothing here waits: a peer that is stopped costs a dropped message, never a
// blocked one.
//
//   connected ── hang-up ──► the slot's name: nobody has it, or another user ─► dead
//       ▲                                     another process has it ─────────► dead; connect to it
//       └──────────────────────────────────── the same process has it: it is about to end
//                                             we can't know: look again later

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "registry/control_message.h"
#include "registry/shared_table.h"
#include "system/fd.h"

namespace verbena::registry {

/// What another process gave to pass().
struct PeerMessage {
  std::uint32_t from = 0;               // the sender's slot, as it says; 0: it didn't
  std::uint8_t wire = 0;                // of the sender, and for the same one here
  std::span<const std::uint8_t> bytes;  // head and body as one; they hold until the return
  std::span<Fd> descriptors;            // that came along; to be taken. Fewer than were sent, or
                                        // none, where this process can't have more
};

/// What a process tells of itself.
struct Account {
  std::string text;
  std::uint32_t next = 0;  // the queue pair that the next part begins with; 0: that is all
};

class PeerEvents {
 public:
  virtual void message(const PeerMessage& message) = 0;
  /// The process that held the slot as `tenancy` has died. Another one may have the slot now.
  virtual void peer_died(std::uint32_t slot, Tenancy tenancy) = 0;
  /// A process of the same user wants to know what this one is doing. `queue_pairs`: also what
  /// those from this number on do, a bounded part of them; 0: none of them.
  [[nodiscard]] virtual Account account(std::uint32_t queue_pairs) = 0;

 protected:
  ~PeerEvents() = default;
};

class Peers {
 public:
  enum class Passed : std::uint8_t { passed, busy, no_owner };
  struct Outcome {
    Passed passed{};
    Tenancy dead = Tenancy::none;  // no_owner: who held the slot, as far as the table knows
  };

  /// `memory` is where messages of other processes are received into. `epoll_fd` watches all
  /// connections.
  Peers(std::uint32_t own_slot, Fd listener, const SharedTable& table,
        std::span<std::uint8_t> memory, int epoll_fd);

  /// A connection to `slot` that is already open, to the process that held it as `tenancy`.
  void adopt(Fd connection, std::uint32_t slot, Tenancy tenancy);
  /// A connection to `slot` from now on: its death will be seen. busy: the same, if a process held
  /// the slot, but there is no connection yet.
  [[nodiscard]] Outcome meet(std::uint32_t slot);
  [[nodiscard]] bool knows(std::uint32_t slot) const { return by_slot_.contains(slot); }
  /// A message of a wire to the same wire of the process that holds `slot`.
  [[nodiscard]] Outcome pass(std::uint32_t slot, std::uint8_t wire,
                             std::span<const std::uint8_t> head, std::span<const std::uint8_t> body,
                             std::span<const int> descriptors);
  /// Does what the epoll calls for, a bounded amount.
  void serve(PeerEvents& events);
  /// Looks again who has died. Call when next_look() has come.
  void look_again(Instant now, PeerEvents& events);
  [[nodiscard]] Instant next_look() const { return next_look_; }
  void close();

 private:
  struct Connection {
    Fd fd;
    std::uint32_t slot = 0;  // 0: the peer hasn't said
    Tenancy tenancy = Tenancy::none;
    Instant since{};
  };
  struct Lost {
    std::uint32_t slot = 0;
    Tenancy tenancy = Tenancy::none;

    friend constexpr bool operator==(const Lost&, const Lost&) = default;
  };

  int watch(Connection connection);
  void accept_all();
  void read(int fd, PeerEvents& events);
  void handle(Connection& connection, const ControlHeader& header, std::size_t bytes,
              std::span<Fd> descriptors, PeerEvents& events);
  void send_table(int fd) const;
  static void send_account(int fd, Account account);
  void lost(int fd, PeerEvents& events);
  /// Looks which process has the slot now. `since`: when the lost connection was made.
  void find_out(Lost lost, Instant since, PeerEvents& events);
  void look_later(Lost lost);
  void forget(Lost lost);
  /// A process that isn't `tenancy` was known by the slot, or lost. Its death isn't told yet.
  [[nodiscard]] std::optional<Lost> predecessor(std::uint32_t slot, Tenancy tenancy) const;
  void handle_hello(Connection& connection, const ControlHeader& header, PeerEvents& events);
  /// Names and credentials are those of a user whom this process isn't any more.
  [[nodiscard]] bool user_changed() const;
  void drop(int fd);

  std::uint32_t own_slot_;
  std::uint32_t user_;
  Fd listener_;
  Fd spare_;  // for turning peers away when descriptors have run out
  const SharedTable& table_;
  std::span<std::uint8_t> memory_;
  int epoll_fd_;
  std::unordered_map<int, Connection> connections_;  // by descriptor
  std::unordered_map<std::uint32_t, int> by_slot_;   // one to each
  std::vector<Lost> lost_;                           // without a connection, dead or not
  Instant next_look_ = kNever;
};

}  // namespace verbena::registry
