#include "engine/paces.h"

#include <algorithm>
#include <utility>

#include "engine/queue_pair.h"
#include "engine/run_queue.h"

namespace verbena::engine {

namespace {

std::size_t hash(const Receiver& r) {
  std::uint64_t h = r.slot;
  for (const std::uint8_t byte : r.address.bytes()) h = (h ^ byte) * 0x100'0000'01b3u;  // FNV-1a
  return static_cast<std::size_t>(h ^ (h >> 32));
}

}  // namespace

Paces::Place* Paces::find(const Receiver& receiver) {
  const std::size_t home = hash(receiver);
  for (std::size_t i = 0; i < kTries; ++i) {
    Place& place = places_[(home + i) % kPlaces];
    if (place.used != Instant{} && place.receiver == receiver) return &place;
  }
  return nullptr;
}

Paces::Place* Paces::find_or_make(const Receiver& receiver, Instant now) {
  if (Place* known = find(receiver)) {
    known->used = now;
    return known;
  }
  const std::size_t home = hash(receiver);
  Place* oldest = nullptr;
  for (std::size_t i = 0; i < kTries; ++i) {
    Place& place = places_[(home + i) % kPlaces];
    if (place.pace.deadline() != kNever || place.first_held != nullptr) continue;
    if (oldest == nullptr || place.used < oldest->used) oldest = &place;
  }
  if (oldest != nullptr) {
    *oldest = {.receiver = receiver, .used = now, .pace = Pace{receiver.like_us}};
  }
  return oldest;
}

bool Paces::lets(QueuePair& qp, const Receiver& to, std::uint32_t cost, Instant now) {
  Place* place = find_or_make(to, now);
  if (place == nullptr || place->pace.fits(cost)) return true;
  hold(*place, qp);
  return false;
}

bool Paces::sent(const Receiver& to, std::uint32_t cost, Instant now) {
  Place* place = find(to);
  return place != nullptr && place->pace.sent(cost, now);
}

void Paces::mark_sent(const Receiver& to, Qpn from, Psn number, Instant now) {
  Place* place = find(to);
  if (place == nullptr) return;
  place->pace.mark_sent({from, number}, now);
  deadline_ = std::min(deadline_, place->pace.deadline());
}

bool Paces::reached(const Receiver& to, Qpn from, Psn number, std::uint32_t buffer,
                    RunQueue& runnable) {
  Place* place = find(to);
  if (place == nullptr || !place->pace.reached({from, number}, buffer)) return false;
  release(*place, runnable);
  return true;
}

void Paces::expire(Instant now, RunQueue& runnable) {
  if (now < deadline_) return;
  deadline_ = kNever;
  for (Place& place : places_) {
    if (place.pace.deadline() <= now) {
      place.pace.expire(now);
      release(place, runnable);
    }
    deadline_ = std::min(deadline_, place.pace.deadline());
  }
}

void Paces::forget(QueuePair& qp, RunQueue& runnable) {
  if (qp.reliable()) return;
  for (Place& place : places_) {
    if (qp.held) remove(place, qp);
    if (place.pace.forget(qp.qpn)) release(place, runnable);
  }
}

// ---- those that are held back, linked through the queue pairs

void Paces::hold(Place& place, QueuePair& qp) {
  if (qp.held) return;
  qp.held = true;
  qp.next_held = nullptr;
  (place.last_held == nullptr ? place.first_held : place.last_held->next_held) = &qp;
  place.last_held = &qp;
}

/// The first was held first because it had sent: so it comes last, and everybody has his turn.
void Paces::release(Place& place, RunQueue& runnable) {
  QueuePair* const first = std::exchange(place.first_held, nullptr);
  place.last_held = nullptr;
  if (first == nullptr) return;
  for (QueuePair* qp = first->next_held; qp != nullptr; qp = qp->next_held) {
    qp->held = false;
    runnable.push(*qp);
  }
  first->held = false;
  runnable.push(*first);
}

void Paces::remove(Place& place, QueuePair& qp) {
  QueuePair* before = nullptr;
  QueuePair* at = place.first_held;
  for (; at != nullptr && at != &qp; at = at->next_held) before = at;
  if (at == nullptr) return;
  (before == nullptr ? place.first_held : before->next_held) = qp.next_held;
  if (place.last_held == &qp) place.last_held = before;
  qp.held = false;
}

}  // namespace verbena::engine
