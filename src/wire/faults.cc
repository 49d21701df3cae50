#include "wire/faults.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "packet/icrc.h"
#include "packet/packet.h"
#include "wire/wire_counters.h"

namespace verbena::wire {
namespace {

constexpr int kTries = 64;

std::size_t size_on_the_line(const Faults::Frame& frame) {
  return frame.bytes.size() + ip_and_udp_size(frame.flow.source.is_v4());
}

/// Between such frames the order matters to somebody.
bool same_conversation(const Faults::Frame& a, const Faults::Frame& b) {
  return a.flow == b.flow && a.to == b.to;
}

bool passes_for_intact(const Faults::Frame& frame) {
  const auto size = frame.bytes.size() - packet::kIcrcSize;
  const packet::IcrcHeaders headers{.source = frame.flow.source,
                                    .destination = frame.flow.destination,
                                    .source_port = frame.flow.source_port,
                                    .destination_port = packet::kRocePort};
  return packet::recover_identification(headers, std::span{frame.bytes}.first(size),
                                        packet::load_icrc(&frame.bytes[size]))
      .has_value();
}

void flip(Faults::Frame& frame, std::size_t bit) {
  std::uint8_t& byte = frame.bytes[bit / 8];
  byte = static_cast<std::uint8_t>(byte ^ (1u << (bit % 8)));
}

/// 0 … 1, without 1.
double chance(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

}  // namespace

/// Flips one bit. A receiver on a UDP socket has 16 of the ICRC's 32 bits on IPv4, because the
/// kernel's checksum has the others covered. Here the kernel computes its checksum over the damaged
/// frame, so damage that those 16 bits wouldn't show is not done.
void Faults::corrupt(Frame& frame) {
  for (int i = 0; i < kTries; ++i) {
    const std::size_t bit = details_() % (frame.bytes.size() * 8);
    flip(frame, bit);
    const bool shows = !passes_for_intact(frame);
    flip(frame, bit);
    if (!shows) continue;
    tell(Fault::corrupt, frame);
    flip(frame, bit);
    ++counters_.corrupted;
    return;
  }
}

void Faults::admit(Frame frame, Instant now) {
  release_overdue(now);
  const bool drop = chance(fates_) < spec_.drop;
  const bool damage = chance(fates_) < spec_.corrupt;
  const bool twice = chance(fates_) < spec_.duplicate;
  const bool late = chance(fates_) < spec_.reorder;
  const auto overtakers = 1 + static_cast<unsigned>(chance(fates_) * kMaxOvertakers);
  if (drop) {
    ++counters_.dropped;
    tell(Fault::drop, frame);
    return;
  }
  if (twice) {
    ++counters_.duplicated;
    tell(Fault::duplicate, frame);
  }
  const unsigned copies = twice ? 2 : 1;
  if (late) {
    ++counters_.reordered;
    tell(Fault::reorder, frame);
  }
  if (damage) corrupt(frame);
  if (late) {
    const std::size_t size = frame.bytes.size();
    held_.push_back({std::move(frame), copies, overtakers, now + kMaxHold});
    bytes_ += size;
    return;
  }
  enter_line(frame, copies, now);
  overtaken_by(frame, now);
}

void Faults::overtaken_by(const Frame& frame, Instant now) {
  for (Held& held : held_) {
    if (!same_conversation(held.frame, frame) || --held.overtakers > 0) continue;
    enter_line(held.frame, held.copies, now);
  }
  std::erase_if(held_, [this](const Held& held) {
    if (held.overtakers > 0) return false;
    bytes_ -= held.frame.bytes.size();
    return true;
  });
}

void Faults::release_overdue(Instant now) {
  while (!held_.empty() && held_.front().until <= now) {
    const Held held = std::move(held_.front());
    held_.pop_front();
    bytes_ -= held.frame.bytes.size();
    enter_line(held.frame, held.copies, held.until);
  }
}

Duration Faults::time_on_the_line(const Frame& frame) const {
  return Duration{std::llround(static_cast<double>(size_on_the_line(frame)) * 8e9 / spec_.rate)};
}

void Faults::enter_line(const Frame& frame, unsigned copies, Instant now) {
  for (unsigned i = 0; i < copies; ++i) {
    Instant leaves = now;
    if (spec_.rate > 0) leaves = line_free_ = std::max(line_free_, now) + time_on_the_line(frame);
    const double swing = (2 * chance(details_) - 1) * static_cast<double>(spec_.jitter.count());
    Instant due = leaves + spec_.delay + Duration{std::llround(swing)};
    if (!line_.empty()) due = std::max(due, line_.back().due);
    line_.push_back({frame, due});
    bytes_ += frame.bytes.size();
  }
}

const Faults::Frame* Faults::due(Instant now) {
  release_overdue(now);
  return !line_.empty() && line_.front().due <= now ? &line_.front().frame : nullptr;
}

void Faults::pop() {
  bytes_ -= line_.front().frame.bytes.size();
  line_.pop_front();
}

Instant Faults::next_deadline() const {
  const Instant line = line_.empty() ? kNever : line_.front().due;
  const Instant held = held_.empty() ? kNever : held_.front().until;
  return std::min(line, held);
}

Instant Faults::empty_at() const {
  Instant last{};
  if (!line_.empty()) last = line_.back().due;
  Instant free = line_free_;
  for (const Held& held : held_) {  // in their order, each when nobody overtakes it any more
    Instant leaves = held.until;
    if (spec_.rate > 0) {
      leaves = free = std::max(free, held.until) + held.copies * time_on_the_line(held.frame);
    }
    last = std::max(last, leaves + spec_.delay + spec_.jitter);
  }
  return last;
}

bool Faults::full(Instant now) const {
  return bytes_ >= kMaxBytes || line_free_ > now + kMaxBacklog;
}

}  // namespace verbena::wire
