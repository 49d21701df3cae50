#pragma once

// Connections to the other processes of the registry: hands the table to joiners, passes messages
// on, and sees deaths as hang-ups. Nothing here waits: a peer that is stopped costs a dropped
// message, never a blocked one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "registry/control_message.h"
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

class PeerEvents {
 public:
  virtual void message(const PeerMessage& message) = 0;
  virtual void peer_died(std::uint32_t slot) = 0;
  /// A process of the same user wants to know what this one is doing.
  [[nodiscard]] virtual std::string account() = 0;

 protected:
  ~PeerEvents() = default;
};

class Peers {
 public:
  enum class Passed : std::uint8_t { passed, busy, no_owner };

  /// `memory` is where messages of other processes are received into. `epoll_fd` watches all
  /// connections.
  Peers(std::uint32_t own_slot, Fd listener, int table_fd, std::span<std::uint8_t> memory,
        int epoll_fd);

  /// A connection to `slot` that is already open.
  void adopt(Fd connection, std::uint32_t slot);
  /// A connection to `slot` from now on: its death will be seen.
  [[nodiscard]] Passed meet(std::uint32_t slot);
  [[nodiscard]] bool knows(std::uint32_t slot) const { return by_slot_.contains(slot); }
  /// A message of a wire to the same wire of the process that holds `slot`.
  [[nodiscard]] Passed pass(std::uint32_t slot, std::uint8_t wire,
                            std::span<const std::uint8_t> head, std::span<const std::uint8_t> body,
                            std::span<const int> descriptors);
  /// Does what the epoll calls for, a bounded amount.
  void serve(PeerEvents& events);
  void close();

 private:
  struct Connection {
    Fd fd;
    std::uint32_t slot = 0;  // 0: the peer hasn't said
  };

  int watch(Fd fd, std::uint32_t slot);
  void accept_all();
  void read(int fd, PeerEvents& events);
  void handle(Connection& connection, const ControlHeader& header, std::size_t bytes,
              std::span<Fd> descriptors, PeerEvents& events);
  void send_table(int fd) const;
  static void send_account(int fd, std::string text);
  void lost(int fd, PeerEvents& events);
  void drop(int fd);

  std::uint32_t own_slot_;
  Fd listener_;
  Fd spare_;  // for turning peers away when descriptors have run out
  int table_fd_;
  std::span<std::uint8_t> memory_;
  int epoll_fd_;
  std::unordered_map<int, Connection> connections_;  // by descriptor
  std::unordered_map<std::uint32_t, int> by_slot_;   // one to each
};

}  // namespace verbena::registry
