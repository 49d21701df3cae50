#pragma once

// Gathers frames into batches and sends them: one UDP_SEGMENT datagram per batch, one
// sendmmsg per run of batches of the same socket.
//
//   arena   | frame icrc frame icrc | frame icrc | frame icrc frame icrc |  room reserved  |
//   batch   |           0           |      1     |           2           | joins 2, or is 3
//
// Frames lie one behind another, so whether a frame joins the batch before it or begins one
// is decided at commit(), when its destination QPN is known.
//
// With faults, a batch is one frame. flush() hands new ones over to them, and sends those that
// come out.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "packet/frame.h"
#include "wire/capture.h"
#include "wire/faults.h"
#include "wire/send_sockets.h"
#include "wire/wire_counters.h"

namespace verbena::wire {

class Transmitter {
 public:
  static constexpr std::size_t kMaxSegments = 64;        // UDP_MAX_SEGMENTS of older kernels
  static constexpr std::size_t kMaxBatchBytes = 65'000;  // with headers below 65,535
  static constexpr std::size_t kMaxBatches = 512;
  static constexpr std::size_t kMaxFaultyBatches = 32;  // before the faults have their say

  /// `epoll_fd` gets the sockets that are full, so that it wakes when they have room again.
  /// nullptr: no faults, no capture.
  Transmitter(std::span<std::uint8_t> arena, SendSockets& sockets, WireCounters& counters,
              int epoll_fd, Faults* faults = nullptr, Capture* capture = nullptr);

  /// See packet::FrameSink.
  [[nodiscard]] std::span<std::uint8_t> reserve(const packet::Flow& flow, std::size_t size) {
    return reserve_many(flow, size, 1).bytes;
  }
  [[nodiscard]] packet::FrameRooms reserve_many(const packet::Flow& flow, std::size_t size,
                                                std::size_t count);
  void commit();
  void flush();

  /// Frames wait for room in a socket; flush() again when the epoll wakes.
  [[nodiscard]] bool waiting() const { return !full_.empty(); }
  /// When flush() has frames to send that the faults hold back now.
  [[nodiscard]] Instant next_deadline() const;
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

  [[nodiscard]] bool has_room(std::size_t bytes) const;
  [[nodiscard]] bool joins_last(std::uint32_t destination_qpn, std::size_t bytes) const;
  void seal(const Batch& batch, std::size_t offset, std::size_t bytes, std::size_t index);
  void pass_through_faults();
  void capture(const Batch& batch);
  [[nodiscard]] bool release(const Faults::Frame& frame);
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
  Faults* faults_;
  Capture* capture_;

  std::size_t max_segments_ = kMaxSegments;
  std::size_t max_batches_ = kMaxBatches;
  std::size_t limit_;         // of the arena; 0 while the faults take nothing
  std::size_t released_ = 0;  // batches that have been through the faults
  std::size_t head_ = 0;      // where the next frame goes
  packet::Flow reserved_flow_;
  std::size_t reserved_ = 0;        // frames at head_
  std::size_t reserved_bytes_ = 0;  // of each, ICRC included
  std::vector<Batch> batches_;
  std::vector<SendSocket*> full_;
  std::string last_error_;
};

}  // namespace verbena::wire
