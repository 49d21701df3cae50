#include "tools/report/packets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "packet/packet.h"
#include "packet/print.h"
#include "packet/rnr_timer.h"
#include "tools/report/connections.h"
#include "tools/report/packet_headers.h"
#include "tools/report/packet_key.h"
#include "tools/report/repetitions.h"
#include "tools/report/wording.h"

namespace verbena::report {
namespace {

using packet::OpcodeInfo;

/// Where a packet was seen: as it left, as it arrived, or on its way.
enum class Point : std::uint8_t { left, arrived, passing };

std::optional<Point> point_of(Seen kind) {
  switch (kind) {
    case Seen::sent:
      return Point::left;
    case Seen::received:
    case Seen::dropped:
      return Point::arrived;
    case Seen::passing:
      return Point::passing;
    case Seen::fault:
    case Seen::state:
    case Seen::post_send:
    case Seen::post_receive:
    case Seen::retry:
    case Seen::completion:
      break;
  }
  return std::nullopt;
}

std::string packet_name(const Observation& o) {
  if (const auto name = connection_message_name(o); !name.empty()) return std::string{name};
  const OpcodeInfo& info = packet::info_of(static_cast<packet::Opcode>(o.opcode));
  if (!info.known()) return fmt::format("opcode {:#04x}", o.opcode);
  if (info.kind == packet::Kind::acknowledge &&
      o.headers.size() >= packet::header_size(packet::Opcode{o.opcode})) {
    const packet::Syndrome syndrome{o.headers[packet::Bth::kSize]};
    switch (syndrome.type()) {
      case packet::Syndrome::Type::ack:
        return "ACK";
      case packet::Syndrome::Type::rnr_nak:
        return "RNR NAK, wait " + duration_text(packet::rnr_delay(syndrome.rnr_timer()).count());
      case packet::Syndrome::Type::nak:
        return fmt::format("NAK, {}", packet::text(syndrome.nak_code()));
      case packet::Syndrome::Type::reserved:
        return "ACKNOWLEDGE, reserved syndrome";
    }
  }
  // The service is the conversation's.
  const auto blank = info.name.find(' ');
  const bool has_service = blank == 2 || blank == 3;
  return std::string{has_service && info.service != packet::Service::own
                         ? info.name.substr(blank + 1)
                         : info.name};
}

class Joiner {
 public:
  Joiner(const Observations& seen, const Conversations& of, const std::vector<Time>& times)
      : seen_{seen}, of_{of}, times_{times} {}

  std::vector<Event> join() {
    choose_witnesses();
    for (std::size_t i = 0; i < seen_.all.size(); ++i) group(i);
    for (std::size_t i = 0; i < seen_.all.size(); ++i) group_fault_of_message(i);
    for (auto& [key, group] : groups_) join(group);
    std::ranges::stable_sort(events_, {}, &Event::time);
    mark_repetitions(events_, knows_again_);
    return std::move(events_);
  }

 private:
  using Witness = std::uint32_t;  // an observer
  struct Arrival {
    std::size_t place;  // of the observation
    std::string_view drop{};
  };
  struct Group {
    std::vector<std::size_t> left, passing, faults;  // places of observations
    std::vector<Arrival> arrived;
  };

  [[nodiscard]] bool is_traced(std::size_t i) const {
    return seen_.observers[seen_.all[i].observer].traced;
  }

  /// Two observers may have seen a packet at the same point, a trace and a capture of one process:
  /// one is believed, the trace if there is one.
  void choose_witnesses() {
    for (std::size_t i = 0; i < seen_.all.size(); ++i) {
      const auto point = point_of(seen_.all[i].kind);
      const Assigned& a = of_.of[i];
      if (!point || a.conversation == kNone) continue;
      ++counts_[{a.conversation, a.side}][{*point, seen_.all[i].observer}];
    }
    for (const auto& [direction, counts] : counts_) {
      for (const auto& [seen_at, count] : counts) {
        const auto& [point, observer] = seen_at;
        const auto [chosen, is_new] = witnesses_.try_emplace({direction, point}, observer);
        const auto worth = [this, &seen = counts, at = point](Witness w) {
          return std::pair{seen_.observers[w].traced, seen.at({at, w})};
        };
        if (!is_new && worth(chosen->second) < worth(observer)) chosen->second = observer;
      }
      split_passing(direction, counts);
      leave_out_strays(direction, counts);
    }
  }

  /// A few frames arrive where they leave: another process got them, and handed them over.
  void leave_out_strays(const Direction& direction,
                        const std::map<std::pair<Point, Witness>, std::size_t>& counts) {
    constexpr std::size_t kFew = 10;  // one in so many
    const auto left = witnesses_.find({direction, Point::left});
    const auto arrived = witnesses_.find({direction, Point::arrived});
    if (left == witnesses_.end() || arrived == witnesses_.end()) return;
    if (left->second != arrived->second) return;
    const Witness both = left->second;
    if (counts.at({Point::arrived, both}) * kFew < counts.at({Point::left, both})) {
      witnesses_.erase(arrived);
    }
  }

  /// Two captures without directions, one at each end: the one that saw more is at the sender's,
  /// and where they saw the same, the first file is the left end's.
  void split_passing(const Direction& direction,
                     const std::map<std::pair<Point, Witness>, std::size_t>& counts) {
    std::vector<std::pair<std::size_t, Witness>> passing;
    for (const auto& [seen_at, count] : counts) {
      if (seen_at.first == Point::passing) passing.emplace_back(count, seen_at.second);
    }
    if (passing.size() < 2) return;
    auto [first, second] = std::pair{passing[0], passing[1]};
    const bool swapped =
        first.first == second.first ? direction.second == Side::right : first.first < second.first;
    if (swapped) std::swap(first, second);
    near_sender_[direction] = first.second;
    near_receiver_[direction] = second.second;
    witnesses_.erase({direction, Point::passing});
    witnesses_.try_emplace({direction, Point::left}, first.second);
    witnesses_.try_emplace({direction, Point::arrived}, second.second);
  }

  [[nodiscard]] bool witnessed(const Direction& direction, Point point) const {
    return witnesses_.contains({direction, point});
  }
  /// What doesn't arrive there is lost: somebody looks.
  [[nodiscard]] bool arrivals_are_seen(const Direction& direction) const {
    const Conversation& c = of_.all[direction.first];
    return witnessed(direction, Point::arrived) || c.end(other(direction.second)).traced;
  }

  void group(std::size_t i) {
    const Observation& o = seen_.all[i];
    const Assigned& a = of_.of[i];
    if (a.conversation == kNone) return;
    const Direction direction{a.conversation, a.side};
    if (o.kind == Seen::fault && o.destination_qpn != kManagementQpn) {
      groups_[key_of(o, a)].faults.push_back(i);
      return;
    }
    auto point = point_of(o.kind);
    if (!point) return;
    if (*point == Point::passing && near_sender_.contains(direction)) {
      point = near_sender_[direction] == o.observer ? Point::left : Point::arrived;
    }
    const auto witness = witnesses_.find({direction, *point});
    if (witness == witnesses_.end()) return;
    // Traced ends may have several processes: a fork's child that goes on.
    if (witness->second != o.observer && !is_traced(i)) return;
    const PacketKey key = key_of(o, a);
    Group& group = groups_[key];
    switch (*point) {
      case Point::left:
        group.left.push_back(i);
        if (o.destination_qpn == kManagementQpn) messages_.insert_or_assign(message_of(o), key);
        break;
      case Point::arrived:
        arrive(group, i);
        break;
      case Point::passing:
        // Seen better at an end.
        if (!witnessed(direction, Point::left) && !witnessed(direction, Point::arrived)) {
          group.passing.push_back(i);
        }
        break;
    }
  }

  /// A fault has the first headers only of a connection message, and so names no connection.
  void group_fault_of_message(std::size_t i) {
    const Observation& o = seen_.all[i];
    if (o.kind != Seen::fault || o.destination_qpn != kManagementQpn) return;
    const auto sent = messages_.find(message_of(o));
    if (sent != messages_.end()) groups_[sent->second].faults.push_back(i);
  }

  using Message = std::pair<Witness, std::vector<std::uint8_t>>;  // BTH and DETH
  static Message message_of(const Observation& o) {
    constexpr std::size_t kHeaders = packet::Bth::kSize + packet::Deth::kSize;
    const auto size = static_cast<std::ptrdiff_t>(std::min(o.headers.size(), kHeaders));
    return {o.observer, {o.headers.begin(), o.headers.begin() + size}};
  }

  /// A frame that passed the first checks and was dropped after them has two lines in a trace.
  void arrive(Group& group, std::size_t i) {
    const Observation& o = seen_.all[i];
    std::size_t& last = newest_arrival_[o.observer];
    const bool same_frame = o.kind == Seen::dropped && !dropped_at_once(o) &&
                            !group.arrived.empty() && group.arrived.back().place == last &&
                            group.arrived.back().drop.empty();
    if (same_frame) {
      group.arrived.back().drop = o.word;
      return;
    }
    last = i;
    group.arrived.push_back({i, o.kind == Seen::dropped ? o.word : std::string_view{}});
  }

  /// By a check that comes before the line `received`.
  static bool dropped_at_once(const Observation& o) {
    constexpr std::array<std::string_view, 4> kFirstChecks{"drop_service", "drop_pkey",
                                                           "drop_state", "drop_source"};
    return o.qpn == 0 || std::ranges::find(kFirstChecks, o.word) != kFirstChecks.end();
  }

  Event event_of(std::size_t i) {
    const Observation& o = seen_.all[i];
    const OpcodeInfo& info = packet::info_of(static_cast<packet::Opcode>(o.opcode));
    Event e;
    e.kind = EventKind::packet;
    e.side = of_.of[i].side;
    e.conversation = of_.of[i].conversation;
    e.time = times_[i];
    e.opcode = o.opcode;
    e.psn = o.psn;
    e.bytes = o.bytes;
    e.headers = o.headers;
    e.what = packet_name(o);
    e.flags.again = o.again;
    e.flags.ack_request = o.ack_request;
    e.flags.response = info.is_response();
    e.flags.connection = !connection_message_name(o).empty();
    e.flags.rnr = e.what.starts_with("RNR");
    e.flags.nak = e.what.starts_with("NAK");
    if (o.again_known) knows_again_.insert({e.conversation, e.side});
    return e;
  }

  void by_time(std::vector<std::size_t>& places) const {
    std::ranges::stable_sort(places, {}, [&](std::size_t i) { return times_[i]; });
  }

  /// The packets of one key: arrivals between two departures belong to the newest before them that
  /// haven't arrived yet, in their order.
  void join(Group& group) {
    for (auto* places : {&group.left, &group.passing, &group.faults}) by_time(*places);
    std::ranges::stable_sort(group.arrived, {}, [&](const Arrival& a) { return times_[a.place]; });
    std::vector<Event> sent;
    for (const std::size_t i : group.left) sent.push_back(event_of(i));
    note_faults(group, sent);
    std::vector<bool> arrived(sent.size());
    std::vector<std::size_t> away;  // places in `sent`
    std::vector<Arrival> doubled;   // nothing was on its way any more
    std::span<const Arrival> rest{group.arrived};
    for (std::size_t i = 0; i < sent.size(); ++i) {
      if (sent[i].note != "--faults drop") away.push_back(i);
      const auto next = std::ranges::find_if(rest, [&](const Arrival& a) {
        return i + 1 < sent.size() && times_[a.place] >= sent[i + 1].time;
      });
      const auto count = static_cast<std::size_t>(next - rest.begin());
      const std::size_t taken = std::min(count, away.size());
      for (std::size_t k = 0; k < taken; ++k) {
        const std::size_t place = away[away.size() - taken + k];
        arrived[place] = true;
        note_arrival(rest[k], sent[place]);
      }
      away.resize(away.size() - taken);
      std::ranges::copy(rest.subspan(taken, count - taken), std::back_inserter(doubled));
      rest = rest.subspan(count);
    }
    for (const Arrival& a : doubled) {
      const std::size_t place = left_just_after(a, sent, arrived);
      if (place == sent.size()) {
        add_alone(a, true);
        continue;
      }
      arrived[place] = true;
      note_arrival(a, sent[place]);
    }
    for (const Arrival& a : rest) add_alone(a, false);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      Event& e = sent[i];
      const bool seen_there = arrivals_are_seen({e.conversation, e.side});
      if (!arrived[i] && seen_there) e.flags.lost = true;
      if (!seen_there) e.flags.one_sided_view = true;
      events_.push_back(std::move(e));
    }
    for (const std::size_t i : group.passing) add_alone({i}, false);
  }

  /// Clocks that were compared by their packets agree only about so well.
  [[nodiscard]] std::size_t left_just_after(const Arrival& a, const std::vector<Event>& sent,
                                            const std::vector<bool>& arrived) const {
    constexpr Time kInaccuracy = 1'000'000;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const Time ahead = difference_of(sent[i].time, times_[a.place]);
      if (!arrived[i] && ahead >= 0 && ahead <= kInaccuracy) return i;
    }
    return sent.size();
  }

  void note_faults(const Group& group, std::vector<Event>& sent) {
    std::size_t next = 0;
    for (const std::size_t i : group.faults) {
      while (next + 1 < sent.size() && sent[next + 1].time <= times_[i]) ++next;
      if (next < sent.size()) sent[next].note = fmt::format("--faults {}", seen_.all[i].word);
    }
  }

  void note_arrival(const Arrival& a, Event& e) const {
    e.arrived = times_[a.place];
    if (a.drop.empty()) return;
    e.flags.ignored = a.drop == "drop_response";
    e.flags.dropped = !e.flags.ignored;
    e.note = a.drop;
  }

  /// Nobody saw it leave, or the network made two of one.
  void add_alone(const Arrival& a, bool doubled) {
    Event e = event_of(a.place);
    if (!a.drop.empty()) note_arrival(a, e);
    e.flags.one_sided_view = true;
    e.flags.duplicate = doubled;
    if (doubled && e.note.empty()) e.note = "arrived twice";
    events_.push_back(std::move(e));
  }

  const Observations& seen_;
  const Conversations& of_;
  const std::vector<Time>& times_;
  std::map<Direction, std::map<std::pair<Point, Witness>, std::size_t>> counts_;
  std::map<std::pair<Direction, Point>, Witness> witnesses_;
  std::map<Direction, Witness> near_sender_, near_receiver_;
  std::map<PacketKey, Group> groups_;
  std::map<Message, PacketKey> messages_;  // of connection managers, as they left
  std::set<Direction> knows_again_;
  std::map<Witness, std::size_t> newest_arrival_;  // the place of the observation
  std::vector<Event> events_;
};

}  // namespace

std::vector<Event> join_packets(const Observations& seen, const Conversations& of,
                                const std::vector<Time>& times) {
  return Joiner{seen, of, times}.join();
}

}  // namespace verbena::report
