#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/psn.h"
#include "engine/attributes.h"
#include "engine/completion.h"
#include "packet/frame.h"
#include "packet/packet.h"

namespace verbena::engine {

struct QueuePair;

/// Why a requester sends again.
enum class RetryCause : std::uint8_t { timeout, early, sequence_nak, missing_response, rnr_nak };

[[nodiscard]] std::string_view name_of(RetryCause c);

/// A frame that arrived and is dropped, as far as it was understood.
struct DroppedFrame {
  std::string_view reason{};               // the name of its counter
  const QueuePair* qp = nullptr;           // nullptr: none was found
  const packet::Packet* packet = nullptr;  // nullptr: `bytes` are not one
  std::span<const std::uint8_t> bytes{};   // where there is no packet
};

/// Sees what happens. Called in the middle of things: it may look, but not call back.
class Observer {
 public:
  virtual void created(const QueuePair& qp) = 0;
  virtual void destroyed(const QueuePair& qp) = 0;
  /// `payload` bytes are behind the headers of `p`. `again`: a request that has left before.
  virtual void sent(const QueuePair& qp, const packet::Flow& flow, const packet::Packet& p,
                    std::size_t payload, bool again) = 0;
  /// A frame that is the queue pair's; what it makes of it follows.
  virtual void received(const QueuePair& qp, const packet::Datagram& datagram,
                        const packet::Packet& p) = 0;
  virtual void dropped(const DroppedFrame& frame) = 0;
  /// The next frame that the requester sends is `from`.
  virtual void retried(const QueuePair& qp, RetryCause cause, Psn from) = 0;
  /// Requests of a connected queue pair take this way from now on.
  virtual void chose_way(const QueuePair& qp, packet::Course course) = 0;
  /// … and its answers this one, because its requests came so.
  virtual void answers_by(const QueuePair& qp, packet::Way way) = 0;
  virtual void completed(const Completion& c) = 0;
  virtual void state_changed(const QueuePair& qp, QpState from, QpState to) = 0;

 protected:
  ~Observer() = default;
};

}  // namespace verbena::engine
