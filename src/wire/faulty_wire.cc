#include "wire/faulty_wire.h"

#include <algorithm>
#include <deque>
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
  packet::Flow complete = flow;  // of an unknown port: the inner wire refuses it
  if (departure.source_port != 0) complete.source_port = departure.source_port;
  if (tap_ != nullptr) {
    tap_->sending();
    tap_->sent(complete, frame, frame.size(), departure.interface);
  }
  waiting_.push_back({complete, to, {frame.begin(), frame.end()}});
  return true;
} catch (const std::bad_alloc&) {
  return true;
}

void FaultyWire::admit_waiting(Instant now) {
  auto frames = std::exchange(waiting_, {});
  for (Faults::Frame& frame : frames) faults_.admit(std::move(frame), now);
}

/// Frames of one flow stay in their order; a full path holds up no other flow.
void FaultyWire::release_due(Instant now) {
  std::vector<packet::Flow> full_paths;
  const auto leaves = [&](const Faults::Frame& frame) {
    if (std::ranges::find(full_paths, frame.flow) != full_paths.end()) return false;
    if (inner_.send_sealed(frame.flow, frame.to, frame.bytes)) return true;
    full_paths.push_back(frame.flow);
    return false;
  };
  std::deque<Faults::Frame> refused;
  for (Faults::Frame& frame : std::exchange(refused_, {})) {
    if (!leaves(frame)) refused.push_back(std::move(frame));
  }
  while (const Faults::Frame* frame = faults_.due(now)) {
    if (!leaves(*frame)) refused.push_back(*frame);
    faults_.pop();
  }
  refused_ = std::move(refused);
}

void FaultyWire::flush() {
  const Instant now = monotonic_now();
  admit_waiting(now);
  inner_.flush();  // first: sockets that were full may have room
  release_due(now);
  full_ = faults_.full(now) || refused_.size() >= kMaxRefused;
  retry_at_ = refused_.empty() ? kNever : now + kRetryPause;
  inner_.flush();
}

Instant FaultyWire::next_deadline() const {
  return std::min({faults_.next_deadline(), inner_.next_deadline(), retry_at_});
}

void FaultyWire::set_tap(Tap* tap) {
  tap_ = tap;
  arrivals_.follow(tap);
  inner_.set_tap(tap != nullptr ? &arrivals_ : nullptr);
}

}  // namespace verbena::wire
