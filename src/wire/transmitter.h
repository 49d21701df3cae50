#pragma once

// Gathers frames into batches and sends them: one UDP_SEGMENT datagram per batch, one
// sendmmsg per run of batches of the same socket.
//
//   arena   | frame icrc frame icrc | frame icrc | frame icrc frame icrc |  room reserved  |
//   batch   |           0           |      1     |           2           | joins 2, or is 3
//
// Frames lie one behind another, so whether a frame joins the batch before it or begins one
// is decided at commit(), when its destination QPN is known.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "packet/frame.h"
#include "wire/send_sockets.h"
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

  [[nodiscard]] std::span<std::uint8_t> reserve(const packet::Flow& flow, std::size_t size);
  void commit();
  void flush();

  /// Frames wait for room in a socket; flush() again when the epoll wakes.
  [[nodiscard]] bool waiting() const { return !full_.empty(); }
  /// Why the kernel refused a frame last. Empty: it never did.
  [[nodiscard]] const std::string& last_error() const { return last_error_; }

 private:
  struct Batch {
    packet::Flow flow;
    SendSocket* socket = nullptr;
    std::uint32_t destination_qpn = 0;
    std::size_t offset = 0;  // in the arena
    std::size_t bytes = 0;
    std::size_t segment = 0;  // bytes of each frame, ICRC included; the last may have fewer
    std::size_t frames = 0;
    bool done = false;
  };

  [[nodiscard]] bool joins_last(std::uint32_t destination_qpn, std::size_t bytes) const;
  void seal(const Batch& batch, std::size_t offset, std::size_t bytes, std::size_t index);
  void send_run(std::size_t first, std::size_t count);
  void refused(std::size_t index, int code);
  void split(std::size_t index);
  void fail(Batch& batch, int code);
  void forget_sent();
  void watch_full_sockets();

  std::span<std::uint8_t> arena_;
  SendSockets& sockets_;
  WireCounters& counters_;
  int epoll_fd_;

  std::size_t head_ = 0;  // where the next frame goes
  packet::Flow reserved_flow_;
  std::size_t reserved_ = 0;  // bytes at head_, ICRC included; 0: nothing
  std::vector<Batch> batches_;
  std::vector<SendSocket*> full_;
  std::string last_error_;
};

}  // namespace verbena::wire
