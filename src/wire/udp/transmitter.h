#pragma once

// Gathers frames into batches and sends them: one UDP_SEGMENT datagram per batch, one
// sendmmsg per run of batches of the same socket.
//
//   arena   | frame icrc frame icrc | frame icrc | frame icrc frame icrc |  room reserved  |
//   batch   |           0           |      1     |           2           | joins 2, or is 3
//
// Frames lie one behind another, so whether a frame joins the batch before it or begins one
// is decided at commit().
//
// A socket that is full is a path that is full: what waits for it keeps its place in the arena, and
// reserve() says no to that path alone.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/numbers.h"
#include "packet/frame.h"
#include "wire/tap.h"
#include "wire/udp/send_sockets.h"
#include "wire/wire.h"
#include "wire/wire_counters.h"

namespace verbena::wire {

class Transmitter {
 public:
  static constexpr std::size_t kMaxSegments = 64;        // UDP_MAX_SEGMENTS of older kernels
  static constexpr std::size_t kMaxBatchBytes = 65'000;  // with headers below 65,535
  static constexpr std::size_t kMaxBatches = 512;

  /// `epoll_fd` gets the sockets that are full, so that it wakes when they have room again.
  Transmitter(std::span<std::uint8_t> arena, SendSockets& sockets, WireCounters& counters,
              int epoll_fd);

  /// See packet::FrameSink.
  [[nodiscard]] std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn to,
                                                std::size_t size) {
    return reserve_many(flow, to, size, 1).bytes;
  }
  [[nodiscard]] packet::FrameRooms reserve_many(const packet::Flow& flow, Qpn to, std::size_t size,
                                                std::size_t count);
  void commit();
  /// See Wire.
  [[nodiscard]] bool send_sealed(const packet::Flow& flow, Qpn to,
                                 std::span<const std::uint8_t> frame);
  [[nodiscard]] Departure departure_of(const packet::Flow& flow);
  void flush();

  /// Frames wait for room in a socket; flush() again when the epoll wakes.
  [[nodiscard]] bool waiting() const { return !full_.empty(); }
  /// The arena had no room for the frame that was asked for last; since then nothing has left.
  [[nodiscard]] bool full() const { return arena_full_; }
  void set_tap(Tap* tap) { tap_ = tap; }
  /// Why the kernel refused a frame last. Empty: it never did.
  [[nodiscard]] const std::string& last_error() const { return last_error_; }

 private:
  struct Batch {
    packet::Flow flow;
    SendSocket* socket = nullptr;
    Qpn to;
    std::size_t offset = 0;  // in the arena
    std::size_t bytes = 0;
    std::size_t segment = 0;  // bytes of each frame, ICRC included; the last may have fewer
    std::size_t frames = 0;
    bool done = false;
  };

  [[nodiscard]] bool has_room(std::size_t bytes) const;
  [[nodiscard]] bool joins_last(std::size_t bytes) const;
  void seal(const Batch& batch, std::size_t offset, std::size_t bytes, std::size_t index);
  [[nodiscard]] bool make_room(std::size_t bytes);
  void refuse_unknown_port(const packet::Flow& flow);
  void send_run(std::size_t first, std::size_t count);
  void count_sent(const Batch& batch);
  void refused(std::size_t index, int code);
  void split(std::size_t index);
  void fail(Batch& batch, int code);
  void forget_sent();
  void watch_full_sockets();

  std::span<std::uint8_t> arena_;
  SendSockets& sockets_;
  WireCounters& counters_;
  int epoll_fd_;
  Tap* tap_ = nullptr;

  std::size_t head_ = 0;  // where the next frame goes
  bool arena_full_ = false;
  packet::Flow reserved_flow_;
  Qpn reserved_to_;
  SendSocket* reserved_socket_ = nullptr;
  bool last_has_flow_ = false;      // the last batch is of reserved_flow_
  std::size_t reserved_ = 0;        // frames at head_
  std::size_t reserved_bytes_ = 0;  // of each, ICRC included
  std::vector<Batch> batches_;
  std::vector<SendSocket*> full_;
  std::string last_error_;
};

}  // namespace verbena::wire
