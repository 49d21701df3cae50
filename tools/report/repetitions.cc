#include "tools/report/repetitions.h"

#include <map>
#include <optional>
#include <string>

#include "base/psn.h"
#include "packet/packet.h"
#include "tools/report/packet_headers.h"

namespace verbena::report {
namespace {

/// Requests of one direction, as their receiver takes them: in the order of their PSNs.
class Receiver {
 public:
  void lose(const Event& e) {
    const bool is_older = !gap_ || distance(Psn{e.psn}, *gap_) < 0;
    if (is_older && !taken_.contains(e.psn)) gap_ = Psn{e.psn};
  }

  /// It sent a NAK: it has taken nothing from this PSN on. `missing`: this one never came.
  void refuse(Psn psn, bool missing) {
    gap_ = psn;
    const auto refused = taken_.find(psn.value());
    // A capture saw it before it was lost.
    if (refused != taken_.end() && missing && refused->second->flags.one_sided_view) {
      refused->second->flags.lost = true;
    }
    const std::uint32_t end = Psn{psn.value() + kWindow}.value();
    if (end < psn.value()) {  // the PSNs behind it begin again at 0
      forget(taken_.lower_bound(psn.value()), taken_.end(), psn);
      forget(taken_.begin(), taken_.lower_bound(end), psn);
    } else {
      forget(taken_.lower_bound(psn.value()), taken_.lower_bound(end), psn);
    }
  }

  /// It answered: all up to this PSN is there, though not everything was seen.
  void acknowledge(Psn psn) {
    if (gap_ && distance(psn, *gap_) >= 0) gap_.reset();
  }

  void take(Event& e) {
    if (gap_) {
      const auto ahead = distance(Psn{e.psn}, *gap_);
      e.flags.not_taken = ahead > 0;
      if (ahead > 0) return;
      if (ahead == 0) gap_.reset();
    }
    taken_.erase(Psn{e.psn + kWindow}.value());  // from when the PSNs went round before
    const bool is_new = taken_.try_emplace(e.psn, &e).second;
    if (!is_new && e.flags.again) e.flags.duplicate = true;
  }

 private:
  using Taken = std::map<std::uint32_t, Event*>;      // by PSN
  static constexpr std::uint32_t kWindow = 1u << 23;  // PSNs that are later than another

  void forget(Taken::iterator from, Taken::iterator to, Psn refused) {
    for (auto i = from; i != to; ++i) i->second->flags.not_taken = i->first != refused.value();
    taken_.erase(from, to);
  }

  Taken taken_;
  std::optional<Psn> gap_;  // the one that must come before any later one
};

/// Of a direction in which packets don't say whether they left before.
class Newest {
 public:
  bool is_again(Psn psn) {
    const bool again = newest_ && distance(psn, *newest_) <= 0;
    if (!again) newest_ = psn;
    return again;
  }
  /// A READ has this PSN, too: a request from here on asks for a part of it again.
  void responded(Psn psn) {
    if (newest_ && distance(psn, *newest_) > 0) newest_ = psn;
  }

 private:
  std::optional<Psn> newest_;
};

}  // namespace

void mark_repetitions(std::vector<Event>& packets, const std::set<Direction>& known) {
  std::map<Direction, Newest> senders;
  std::map<Direction, Receiver> receivers;
  std::set<std::string> messages;
  for (Event& e : packets) {
    const Direction direction{e.conversation, e.side};
    const packet::OpcodeInfo& info = info_of(e);
    if (e.flags.connection && !known.contains(direction)) {
      e.flags.again = !messages.insert({e.headers.begin(), e.headers.end()}).second;
    }
    const Direction asked{e.conversation, other(e.side)};
    if (e.what == "ConnectRequest" && !e.flags.again) {  // queue pairs with the same numbers
      for (const Direction& d : {direction, asked}) {
        senders.erase(d);
        receivers.erase(d);
      }
    }
    if (e.flags.rnr || e.flags.nak) {
      receivers[asked].refuse(Psn{e.psn}, is_sequence_error(e));
    } else if (info.is_response()) {
      if (info.kind == packet::Kind::read_response) senders[asked].responded(Psn{e.psn});
      receivers[asked].acknowledge(Psn{e.psn});
    }
    if (!info.is_request() || info.deth) continue;
    if (!known.contains(direction)) e.flags.again = senders[direction].is_again(Psn{e.psn});
    if (e.flags.dropped) continue;
    const bool is_reliable = info.service != packet::Service::uc;
    if (!e.flags.lost) {
      receivers[direction].take(e);
    } else if (is_reliable) {
      receivers[direction].lose(e);
    }
  }
}

}  // namespace verbena::report
