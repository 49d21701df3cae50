#include "wire/faulty_wire.h"

#include <algorithm>
#include <new>
#include <utility>

#include "packet/icrc.h"
#include "packet/packet.h"
#include "system/monotonic_now.h"

namespace verbena::wire {

std::span<std::uint8_t> FaultyWire::reserve(const packet::Flow& flow, Qpn to, std::size_t size) {
  reserved_ = 0;
  if (size + packet::kIcrcSize > room_.size()) return {};
  if (waiting_.size() >= kMaxWaiting) flush();
  if (full_) return {};
  reserved_flow_ = flow;
  reserved_to_ = to;
  reserved_ = size + packet::kIcrcSize;
  return room_.first(size);
}

void FaultyWire::commit() {
  if (reserved_ == 0) return;
  const auto frame = room_.first(std::exchange(reserved_, 0));
  const std::size_t size = frame.size() - packet::kIcrcSize;
  const packet::Flow& flow = reserved_flow_;
  const packet::IcrcHeaders headers{.source = flow.source,
                                    .destination = flow.destination,
                                    .source_port = departure_of(flow).source_port,
                                    .destination_port = packet::kRocePort,
                                    .identification = 0};
  packet::store_icrc(&frame[size], packet::icrc(headers, frame.first(size)));
  (void)send_sealed(flow, reserved_to_, frame);
}

/// Without memory the frame is lost, as on any network.
bool FaultyWire::send_sealed(const packet::Flow& flow, Qpn to,
                             std::span<const std::uint8_t> frame) try {
  const Departure departure = departure_of(flow);
  packet::Flow complete = flow;
  complete.source_port = departure.source_port;
  if (tap_ != nullptr) tap_->sent(complete, frame, frame.size(), departure.interface);
  waiting_.push_back({complete, to, {frame.begin(), frame.end()}});
  return true;
} catch (const std::bad_alloc&) {
  return true;
}

void FaultyWire::admit_waiting(Instant now) {
  auto frames = std::exchange(waiting_, {});
  for (Faults::Frame& frame : frames) faults_.admit(std::move(frame), now);
}

void FaultyWire::flush() {
  const Instant now = monotonic_now();
  admit_waiting(now);
  inner_is_full_ = false;
  while (const Faults::Frame* frame = faults_.due(now)) {
    inner_is_full_ = !inner_.send_sealed(frame->flow, frame->to, frame->bytes);
    if (inner_is_full_) break;
    faults_.pop();
  }
  full_ = faults_.full(now);
  inner_.flush();
}

Instant FaultyWire::next_deadline() const {
  return inner_is_full_ ? inner_.next_deadline()
                        : std::min(faults_.next_deadline(), inner_.next_deadline());
}

void FaultyWire::set_tap(Tap* tap) {
  tap_ = tap;
  arrivals_.follow(tap);
  inner_.set_tap(tap != nullptr ? &arrivals_ : nullptr);
}

}  // namespace verbena::wire
