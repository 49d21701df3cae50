#include "tools/report/conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "packet/opcode.h"
#include "packet/packet.h"
#include "tools/report/connections.h"
#include "tools/report/endpoints.h"

namespace verbena::report {
namespace {

using packet::OpcodeInfo;

const OpcodeInfo& info_of(const Observation& o) {
  return packet::info_of(static_cast<packet::Opcode>(o.opcode));
}

bool is_packet(const Observation& o) {
  switch (o.kind) {
    case Seen::sent:
    case Seen::received:
    case Seen::passing:
    case Seen::dropped:
    case Seen::fault:
      return true;
    case Seen::state:
    case Seen::post_send:
    case Seen::post_receive:
    case Seen::retry:
    case Seen::completion:
      return false;
  }
  return false;
}

bool is_datagram(const Observation& o) { return is_packet(o) && info_of(o).deth; }

/// The queue pair that a datagram names as its source.
std::uint32_t source_qpn(const Observation& o) {
  constexpr std::size_t kDeth = packet::Bth::kSize;
  if (!is_datagram(o) || o.headers.size() < kDeth + packet::Deth::kSize) return 0;
  return load_be24(&o.headers[kDeth + 5]);
}

std::string_view service_name(const OpcodeInfo& info) {
  switch (info.service) {
    case packet::Service::rc:
      return "RC";
    case packet::Service::uc:
      return "UC";
    case packet::Service::ud:
      return "UD";
    case packet::Service::xrc:
      return "XRC";
    case packet::Service::rd:
    case packet::Service::cnp:
    case packet::Service::own:
      break;
  }
  return "";
}

/// Two ends, the smaller place first.
using Pair = std::pair<std::uint32_t, std::uint32_t>;
Pair pair_of(std::uint32_t a, std::uint32_t b) { return std::minmax(a, b); }

class Finder {
 public:
  explicit Finder(const Observations& seen) : seen_{seen}, ends_of_(seen.all.size()) {}

  Conversations find() {
    learn_of_queue_pairs();
    learn_of_connections();
    learn_of_datagrams();
    for (std::uint32_t i = 0; i < endpoints_.count(); ++i) pair_connected(i);
    pair_of_connections();
    pair_by_answers();
    Conversations result;
    for (std::size_t i = 0; i < seen_.all.size(); ++i) find_ends(i);
    make(result);
    return result;
  }

 private:
  /// Who sent or acted, and to whom. kNone: unknown.
  struct Ends {
    std::uint32_t actor = kNone;
    std::uint32_t peer = kNone;
  };

  [[nodiscard]] bool traced(const Observation& o) const {
    return seen_.observers[o.observer].traced;
  }

  void learn_of_queue_pairs() {
    for (const Observation& o : seen_.all) {
      if (!traced(o) || o.qpn == kManagementQpn || o.qpn == 0) continue;
      const std::uint32_t place = endpoints_.traced(o.observer, o.qpn);
      Endpoint& end = endpoints_.at(place);
      if (o.kind == Seen::post_send || (o.kind == Seen::sent && info_of(o).is_request())) {
        const std::int64_t at = wall_time(seen_, o);
        if (end.first_request == kNever || at < end.first_request) end.first_request = at;
      }
      if (o.kind != Seen::state) continue;
      if (!o.type.empty()) end.type = o.type;
      if (!o.device.empty()) end.device = o.device;
      if (o.mtu != 0) end.mtu = o.mtu;
      if (!o.local.empty()) endpoints_.name(place, plain_address(o.local));
      if (o.destination_qpn != 0) {
        end.peer_qpn = o.destination_qpn;
        end.peer_address = plain_address(o.peer);
      }
    }
  }

  void learn_of_connections() {
    for (std::size_t i = 0; i < seen_.all.size(); ++i) {
      const Observation& o = seen_.all[i];
      if (!is_packet(o) || o.destination_qpn != kManagementQpn) continue;
      if (const auto place = connections_.take(o, traced(o))) messages_.emplace(i, *place);
    }
  }

  /// No state names the address of a datagram queue pair: a datagram does that is seen at both
  /// ends.
  void learn_of_datagrams() {
    using Packet = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // from, to, PSN
    std::map<Packet, const Observation*> sent;
    const auto packet_of = [](const Observation& o) {
      return Packet{source_qpn(o), o.destination_qpn, o.psn};
    };
    for (const Observation& o : seen_.all) {
      if (o.kind == Seen::sent && traced(o) && is_datagram(o)) sent.try_emplace(packet_of(o), &o);
    }
    for (const Observation& o : seen_.all) {
      if (o.kind != Seen::received || !traced(o) || !is_datagram(o)) continue;
      const auto left = sent.find(packet_of(o));
      if (left == sent.end()) continue;
      name_unnamed(endpoints_.traced(left->second->observer, left->second->qpn), o.peer);
      if (o.destination_qpn != o.qpn) continue;  // to a group
      name_unnamed(endpoints_.traced(o.observer, o.qpn), left->second->peer);
    }
    for (const Observation& o : seen_.all) {
      if (!traced(o) || o.qpn == 0 || o.qpn == kManagementQpn || !is_datagram(o)) continue;
      if (o.kind != Seen::sent && o.kind != Seen::received) continue;
      first_peer_.try_emplace(endpoints_.traced(o.observer, o.qpn), peer_of_datagram(o));
    }
  }

  void name_unnamed(std::uint32_t place, std::string_view gid) {
    if (endpoints_.at(place).address.empty()) endpoints_.name(place, plain_address(gid));
  }

  static bool arrived(const Observation& o) {
    return o.kind == Seen::received || o.kind == Seen::dropped;
  }

  /// The other end of a datagram that a traced end saw.
  std::uint32_t peer_of_datagram(const Observation& o) {
    return endpoints_.addressed(plain_address(o.peer),
                                arrived(o) ? source_qpn(o) : o.destination_qpn);
  }

  void pair_connected(std::uint32_t place) {
    if (endpoints_.at(place).peer_qpn == 0) return;
    endpoints_.at(place).peer = endpoints_.peer_of_connected(place);
    Endpoint& peer = endpoints_.at(endpoints_.at(place).peer);
    if (peer.peer == kNone) peer.peer = place;
    if (peer.type.empty()) peer.type = endpoints_.at(place).type;
  }

  void pair_of_connections() {
    for (const Connections::Connection& c : connections_.all()) {
      const Ends ends{endpoints_.addressed(c.active, c.active_qpn),
                      endpoints_.addressed(c.passive, c.passive_qpn)};
      of_connections_.push_back(ends);
      const bool known = c.active_qpn != 0 && c.passive_qpn != 0;
      if (known && endpoints_.at(ends.actor).peer == kNone) endpoints_.pair(ends.actor, ends.peer);
      active_.insert_or_assign(pair_of(ends.actor, ends.peer), ends.actor);
    }
  }

  /// In a capture without connection messages, an acknowledgement names its requester's queue pair,
  /// and its PSN the request, whose packet named the responder's.
  void pair_by_answers() {
    using Path = std::tuple<std::string_view, std::string_view, std::uint32_t>;  // and the PSN
    std::map<Path, std::uint32_t> requests;                                      // to their target
    std::map<Pair, std::size_t> votes;
    for (const Observation& o : seen_.all) {
      if (traced(o) || !is_packet(o) || is_datagram(o)) continue;
      const Way way = way_of(o, false);
      const std::uint32_t target = endpoints_.addressed(way.destination, o.destination_qpn);
      if (endpoints_.at(target).type.empty()) endpoints_.at(target).type = service_name(info_of(o));
      if (info_of(o).is_request()) requests[{way.source, way.destination, o.psn}] = target;
      if (!info_of(o).is_response()) continue;
      const auto asked = requests.find({way.destination, way.source, o.psn});
      if (asked != requests.end()) ++votes[{target, asked->second}];
    }
    std::vector<std::pair<std::size_t, Pair>> best;
    for (const auto& [pair, count] : votes) best.emplace_back(count, pair);
    std::ranges::stable_sort(best, std::greater{}, &std::pair<std::size_t, Pair>::first);
    for (const auto& [count, pair] : best) {
      Endpoint &requester = endpoints_.at(pair.first), &responder = endpoints_.at(pair.second);
      if (requester.peer != kNone || responder.peer != kNone) continue;
      endpoints_.pair(pair.first, pair.second);
      active_.try_emplace(pair_of(pair.first, pair.second), pair.first);
    }
  }

  void find_ends(std::size_t i) {
    const Observation& o = seen_.all[i];
    if (const auto message = messages_.find(i); message != messages_.end()) {
      Ends ends = of_connections_[message->second.connection];
      if (!message->second.by_active) std::swap(ends.actor, ends.peer);
      ends_of_[i] = ends;
      return;
    }
    if (o.destination_qpn == kManagementQpn && is_packet(o)) return;  // other management
    ends_of_[i] = traced(o) ? ends_of_traced(o) : ends_of_captured(o);
  }

  Ends ends_of_traced(const Observation& o) {
    if (o.srq) return {endpoints_.shared(o.observer, *o.srq), kNone};
    if (o.qpn == 0) {  // dropped without a queue pair
      const Way way = way_of(o, true);
      const std::uint32_t target = endpoints_.addressed(way.destination, o.destination_qpn);
      if (!is_datagram(o)) return {endpoints_.at(target).peer, target};
      return {endpoints_.addressed(way.source, source_qpn(o)), target};
    }
    const std::uint32_t me = endpoints_.traced(o.observer, o.qpn);
    std::uint32_t other = endpoints_.at(me).peer;
    if (is_datagram(o)) {
      other = peer_of_datagram(o);
      last_peer_[me] = other;
    } else if (other == kNone) {  // posts and completions of datagrams
      const auto last = last_peer_.find(me);
      const auto first = first_peer_.find(me);
      if (last != last_peer_.end()) {
        other = last->second;
      } else if (first != first_peer_.end()) {
        other = first->second;
      }
    }
    return arrived(o) ? Ends{other, me} : Ends{me, other};
  }

  Ends ends_of_captured(const Observation& o) {
    const Way way = way_of(o, false);
    const std::uint32_t target = endpoints_.addressed(way.destination, o.destination_qpn);
    if (!is_datagram(o)) return {endpoints_.at(target).peer, target};
    const std::uint32_t source = endpoints_.addressed(way.source, source_qpn(o));
    for (const std::uint32_t end : {source, target}) {
      if (endpoints_.at(end).type.empty()) endpoints_.at(end).type = "UD";
    }
    return {source, target};
  }

  /// The end that stands at the left.
  std::uint32_t left_of(const Pair& pair) {
    if (const auto active = active_.find(pair); active != active_.end()) return active->second;
    const std::int64_t first = endpoints_.at(pair.first).first_request;
    const std::int64_t second = endpoints_.at(pair.second).first_request;
    if (first == kNever) return second == kNever ? pair.first : pair.second;
    return second == kNever || first <= second ? pair.first : pair.second;
  }

  End end_at(std::uint32_t place) {
    if (place == kNone) return {};
    const Endpoint& e = endpoints_.at(place);
    End end{.qpn = e.qpn,
            .program = "",
            .device = std::string{e.device},
            .address = std::string{e.address},
            .traced = e.observer != kNone,
            .shared = e.shared};
    if (end.traced) {
      const Observer& observer = seen_.observers[e.observer];
      end.program = fmt::format("{} {}", observer.program, observer.pid);
    }
    return end;
  }

  void make(Conversations& result) {
    std::map<Pair, Assigned> made;  // and the side of the first end
    result.of.resize(seen_.all.size());
    for (const std::size_t i : order()) {
      const auto [actor, peer] = ends_of_[i];
      if (actor == kNone && peer == kNone) continue;
      const Pair key = pair_of(actor, peer);
      const auto [found, is_new] = made.try_emplace(key);
      if (is_new) found->second = add(result, key);
      const bool first = actor == key.first;
      result.of[i] = {found->second.conversation,
                      first ? found->second.side : other(found->second.side)};
    }
  }

  /// Places of the observations, in the order of their walls' time.
  [[nodiscard]] std::vector<std::size_t> order() const {
    std::vector<std::size_t> places(seen_.all.size());
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
    std::ranges::stable_sort(places, std::less{},
                             [&](std::size_t i) { return wall_time(seen_, seen_.all[i]); });
    return places;
  }

  Assigned add(Conversations& result, const Pair& key) {
    const auto number = static_cast<std::uint32_t>(result.all.size());
    // One that isn't known has the greatest place: it is the second.
    const std::uint32_t left = key.second == kNone ? key.first : left_of(key);
    const std::uint32_t right = left == key.first ? key.second : key.first;
    Conversation c;
    c.left = end_at(left);
    c.right = end_at(right);
    for (const std::uint32_t place : {left, right}) {
      if (place == kNone) continue;
      const Endpoint& end = endpoints_.at(place);
      if (c.type.empty()) c.type = end.type;
      if (c.mtu == 0) c.mtu = end.mtu;
    }
    result.all.push_back(std::move(c));
    return {number, left == key.first ? Side::left : Side::right};
  }

  const Observations& seen_;
  Endpoints endpoints_;
  Connections connections_;
  std::map<std::size_t, Connections::Place> messages_;  // by the place of the observation
  std::vector<Ends> of_connections_;                    // actor: the active one
  std::map<Pair, std::uint32_t> active_;                // who asked for the connection
  std::map<std::uint32_t, std::uint32_t> first_peer_;   // of datagrams
  std::map<std::uint32_t, std::uint32_t> last_peer_;    // … up to the observation at hand
  std::vector<Ends> ends_of_;
};

}  // namespace

std::int64_t wall_time(const Observations& seen, const Observation& o) {
  return sum_of(o.time, seen.observers[o.observer].wall);
}

Conversations find_conversations(const Observations& seen) { return Finder{seen}.find(); }

}  // namespace verbena::report
