#include "tools/report/repetitions.h"

#include <iterator>
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
    for (auto i = taken_.begin(); i != taken_.end();) {
      const auto ahead = distance(Psn{i->first}, psn);
      PacketFlags& flags = i->second->flags;
      if (ahead > 0) flags.not_taken = true;
      // A capture saw it before it was lost.
      if (ahead == 0 && missing && flags.one_sided_view) flags.lost = true;
      i = ahead >= 0 ? taken_.erase(i) : std::next(i);
    }
  }

  void take(Event& e) {
    if (gap_) {
      const auto ahead = distance(Psn{e.psn}, *gap_);
      e.flags.not_taken = ahead > 0;
      if (ahead > 0) return;
      if (ahead == 0) gap_.reset();
    }
    const bool is_new = taken_.try_emplace(e.psn, &e).second;
    if (!is_new && e.flags.again) e.flags.duplicate = true;
  }

 private:
  std::map<std::uint32_t, Event*> taken_;  // by PSN
  std::optional<Psn> gap_;                 // the one that must come before any later one
};

bool is_sequence_error(const Event& e) {
  const auto syndrome = syndrome_of(e);
  return e.flags.nak && syndrome && syndrome->nak_code() == packet::NakCode::psn_sequence_error;
}

/// Of a direction in which packets don't say whether they left before.
class Newest {
 public:
  bool is_again(Psn psn) {
    const bool again = newest_ && distance(psn, *newest_) <= 0;
    if (!again) newest_ = psn;
    return again;
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
    if (e.flags.rnr || e.flags.nak) {
      receivers[{e.conversation, other(e.side)}].refuse(Psn{e.psn}, is_sequence_error(e));
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
