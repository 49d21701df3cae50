#pragma once

// One end's device, queue pairs and memory.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rdma++/rdma.h"
#include "tools/bench/ends/control.h"
#include "tools/bench/spec.h"

namespace verbena::bench {

/// A device, opened, and the row of its GID table to speak from.
struct Origin {
  rdma::Context context;
  rdma::GidEntry gid;
};

/// The device `name`; if that is empty, the one that has the address of this end's socket.
[[nodiscard]] Origin origin_of(const std::string& name, const Socket& socket);

/// Queue pairs that are connected with those of the other end, ready to send and receive. All use
/// one buffer: messages leave from its first part, and arrive in the second.
class RdmaEnd {
 public:
  /// Both ends construct theirs at the same time. `receives`: posted on each queue pair.
  RdmaEnd(const Spec& spec, const std::string& device, Control& control, std::uint32_t receives);

  [[nodiscard]] std::string device() const { return from_.context.name(); }
  [[nodiscard]] std::uint32_t queue_pairs() const {
    return static_cast<std::uint32_t>(qps_.size());
  }
  [[nodiscard]] rdma::CompletionQueue& cq() { return cq_; }

  /// The request of the spec's operation on queue pair `index`, which is its id.
  void post(std::uint32_t index, bool signaled);
  void post_receive(std::uint32_t index);

  /// The last byte of a message, as it leaves and as it arrives.
  [[nodiscard]] std::uint8_t* last_byte_out() { return byte(spec_.size - 1); }
  [[nodiscard]] std::uint8_t* last_byte_in() { return byte(landing_ + grh_ + spec_.size - 1); }

  /// Takes what has completed; with events, and if nothing has, sleeps for some milliseconds until
  /// something does. Throws Failed if a request failed.
  [[nodiscard]] std::span<rdma::Completion> take();

 private:
  static constexpr std::uint32_t kQkey = 0x1234'5678;

  [[nodiscard]] std::uint8_t* byte(std::size_t at) {
    return reinterpret_cast<std::uint8_t*>(memory_.data() + at);
  }
  void connect(rdma::QueuePair& qp);

  const Spec& spec_;
  Control& control_;
  Origin from_;
  rdma::ProtectionDomain pd_;
  std::uint32_t receives_;
  rdma::CompletionQueue cq_;
  std::size_t grh_;      // bytes in front of a datagram that arrives
  std::size_t landing_;  // where messages arrive
  rdma::Buffer memory_;
  std::vector<rdma::QueuePair> qps_;
  std::vector<rdma::ConnInfo> peers_;
  std::vector<rdma::AddressHandle> addresses_;  // UD
  bool inline_;
  bool immediate_;  // WRITEs over UC: nothing else tells their target that they arrived
  std::array<rdma::Completion, 32> room_{};
};

}  // namespace verbena::bench
