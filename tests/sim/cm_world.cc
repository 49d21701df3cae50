#include "tests/sim/cm_world.h"

#include <algorithm>
#include <cerrno>

namespace verbena::sim {

CmHost::CmHost(CmWorld& world, std::uint32_t slot, IpAddress address)
    : world_{world}, address_{address}, cm_{{.slot = slot}, *this} {}

std::uint32_t CmHost::next() { return static_cast<std::uint32_t>(world_.random()()); }

CmHost& CmWorld::add_host() {
  const auto n = static_cast<std::uint8_t>(hosts_.size() + 1);
  hosts_.push_back(std::make_unique<CmHost>(*this, 100u + n, IpAddress::v4({10, 0, 0, n})));
  return *hosts_.back();
}

void CmWorld::at(Instant when, std::function<void()> what) {
  happenings_.push({when, order_++, std::move(what)});
}

void CmWorld::transmit(const cm::OutgoingMad& mad) {
  if (pick(1'000'000) < link.loss_ppm) {
    ++lost_;
    if (trace) trace("lost", mad);
    return;
  }
  if (trace) trace("sent", mad);
  const unsigned copies = pick(1'000'000) < link.duplicate_ppm ? 2 : 1;
  for (unsigned i = 0; i < copies; ++i) {
    after(link.delay + pick(link.jitter), [this, mad] { deliver(mad); });
  }
}

void CmWorld::deliver(const cm::OutgoingMad& mad) {
  for (auto& host : hosts_) {
    if (host->address() != mad.route.remote) continue;
    if (host->dead) {
      if (pick(2) == 0) bounce(mad);  // not every network says so
      continue;
    }
    if (trace) trace("came", mad);
    host->cm().receive(
        {.route = {.local = mad.route.remote, .remote = mad.route.local}, .bytes = mad.bytes},
        now_);
  }
}

void CmWorld::bounce(const cm::OutgoingMad& mad) {
  for (auto& host : hosts_) {
    if (host->dead || host->address() != mad.route.local) continue;
    if (trace) trace("back", mad);
    host->cm().undelivered({.route = mad.route, .bytes = mad.bytes}, ECONNREFUSED, now_);
  }
}

void CmWorld::settle() {
  for (bool quiet = false; !quiet;) {
    quiet = true;
    for (auto& host : hosts_) {
      if (host->dead) continue;
      for (const auto& mad : std::exchange(host->cm().outbox(), {})) transmit(mad);
      for (const auto& event : std::exchange(host->cm().events(), {})) {
        quiet = false;
        if (host->owner) host->owner(event);
      }
    }
  }
}

Instant CmWorld::next() const {
  Instant when = happenings_.empty() ? kNever : happenings_.top().when;
  for (const auto& host : hosts_) {
    if (!host->dead) when = std::min(when, host->cm().next_deadline());
  }
  return when;
}

void CmWorld::run_until(Instant end) {
  settle();
  while (next() <= end) {
    now_ = std::max(now_, next());
    while (!happenings_.empty() && happenings_.top().when <= now_) {
      const auto what = happenings_.top().what;
      happenings_.pop();
      what();
    }
    for (auto& host : hosts_) {
      if (!host->dead) host->cm().expire(now_);
    }
    settle();
  }
  now_ = end;
}

}  // namespace verbena::sim
