#pragma once

// The receive buffer that unreliable senders must not overflow belongs to the receiving process, so
// all queue pairs that send to it share one Pace.
//
//   queue pair --+
//   queue pair --+--> Pace towards a receiver --> its socket
//   queue pair --+      holds those back that don't fit, until its mark is answered or given up

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "base/psn.h"
#include "base/time.h"
#include "engine/pace.h"
#include "packet/frame.h"

namespace verbena::engine {

struct QueuePair;
class RunQueue;

/// A process at one of its addresses: there is one socket for all that is sent to it. A foreign
/// device, whose QPNs know no slots, is a few of them.
struct Receiver {
  Receiver() = default;
  Receiver(const IpAddress& at, Qpn qpn) : address{at}, slot{qpn.slot()} {}
  Receiver(const packet::Flow& flow, Qpn qpn)
      : address{flow.destination}, slot{qpn.slot()}, like_us{flow.source == flow.destination} {}

  IpAddress address{};
  std::uint32_t slot = 0;
  bool like_us = false;  // surely: nobody else can be at our own address
  friend bool operator==(const Receiver& a, const Receiver& b) {
    return a.address == b.address && a.slot == b.slot;
  }
};

class Paces {
 public:
  Paces() : places_(kPlaces) {}

  /// May this queue pair send a packet of this truesize? If not, release() or expire() will make
  /// it runnable.
  [[nodiscard]] bool lets(QueuePair& qp, const Receiver& to, std::uint32_t cost, Instant now);
  /// A packet has left. True: now send a mark.
  [[nodiscard]] bool sent(const Receiver& to, std::uint32_t cost, Instant now);
  void mark_sent(const Receiver& to, Qpn from, Psn number, Instant now);

  /// The receiver has reached the mark of a queue pair. False: nobody waits for that.
  [[nodiscard]] bool reached(const Receiver& to, Qpn from, Psn number, std::uint32_t buffer,
                             RunQueue& runnable);
  /// A lower bound of when the next mark is given up.
  [[nodiscard]] Instant deadline() const { return deadline_; }
  void expire(Instant now, RunQueue& runnable);
  /// It is reset or goes: its marks are nobody's any more.
  void forget(QueuePair& qp, RunQueue& runnable);

 private:
  struct Place {
    Receiver receiver{};
    Instant used{};  // {}: never
    Pace pace{};
    QueuePair* first_held = nullptr;
    QueuePair* last_held = nullptr;
  };
  static constexpr std::size_t kPlaces = 256;
  static constexpr std::size_t kTries = 4;

  [[nodiscard]] Place* find(const Receiver& receiver);
  [[nodiscard]] Place* find_or_make(const Receiver& receiver, Instant now);
  static void hold(Place& place, QueuePair& qp);
  static void release(Place& place, RunQueue& runnable);
  static void remove(Place& place, QueuePair& qp);

  // Made once: the data path needs no memory. Who finds no room sends without a pace.
  std::vector<Place> places_;
  Instant deadline_ = kNever;
};

}  // namespace verbena::engine
