#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/ip_address.h"
#include "base/time.h"
#include "cm/deadlines.h"
#include "cm/route.h"
#include "packet/comm_id.h"

namespace verbena::cm {

/// A peer's request. The transaction tells a retry from a new request with a used id.
struct RequestKey {
  IpAddress peer{};
  packet::CommId id{};
  std::uint64_t transaction = 0;

  friend constexpr auto operator<=>(const RequestKey&, const RequestKey&) = default;
};

/// Final answers (REJ, SIDR_REP) to requests that are over. The peer retries its request until it
/// gets the answer; a retry must not be taken for a new request.
class Answers {
 public:
  explicit Answers(std::size_t capacity) : capacity_{capacity} {}

  [[nodiscard]] const OutgoingMad* find(const RequestKey& key) const {
    const auto found = answers_.find(key);
    return found != answers_.end() ? &found->second.mad : nullptr;
  }

  /// When there is no room, the one that would go first goes now.
  void remember(const RequestKey& key, const OutgoingMad& mad, Instant until) {
    forget(key);
    if (answers_.size() >= capacity_) forget(*deadlines_.first());
    answers_.emplace(key, Answer{mad, until});
    deadlines_.add(until, key);
  }

  void expire(Instant now) {
    while (const auto key = deadlines_.due(now)) forget(*key);
  }
  [[nodiscard]] Instant next_deadline() const { return deadlines_.next(); }
  [[nodiscard]] std::size_t size() const { return answers_.size(); }

 private:
  struct Answer {
    OutgoingMad mad;
    Instant until;
  };

  void forget(const RequestKey& key) {
    const auto found = answers_.find(key);
    if (found == answers_.end()) return;
    deadlines_.remove(found->second.until, key);
    answers_.erase(found);
  }

  std::size_t capacity_;
  std::map<RequestKey, Answer> answers_;
  Deadlines<RequestKey> deadlines_;
};

}  // namespace verbena::cm
