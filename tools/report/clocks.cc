#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/report/packet_key.h"
#include "tools/report/packets.h"

namespace verbena::report {
namespace {

/// By clock: the two of a packet that left at one and arrived at the other.
using ClockPair = std::pair<std::string_view, std::string_view>;

/// The shortest time that a packet took from one clock to another, the difference of the two
/// included.
std::map<ClockPair, std::int64_t> shortest_ways(const Observations& seen, const Conversations& of) {
  struct Sightings {
    std::vector<const Observation*> sent, arrived;
  };
  std::map<PacketKey, Sightings> packets;
  for (std::size_t i = 0; i < seen.all.size(); ++i) {
    const Observation& o = seen.all[i];
    if (of.of[i].conversation == kNone || (o.kind != Seen::sent && o.kind != Seen::received)) {
      continue;
    }
    Sightings& packet = packets[key_of(o, of.of[i])];
    (o.kind == Seen::sent ? packet.sent : packet.arrived).push_back(&o);
  }
  std::map<ClockPair, std::int64_t> shortest;
  for (auto& [key, packet] : packets) {
    if (packet.sent.size() != packet.arrived.size()) continue;
    // Of several alike, whichever arrived first: no way is taken for shorter than it was.
    std::ranges::stable_sort(packet.sent, {}, &Observation::time);
    std::ranges::stable_sort(packet.arrived, {}, &Observation::time);
    for (std::size_t i = 0; i < packet.sent.size(); ++i) {
      const Observation &sent = *packet.sent[i], &arrived = *packet.arrived[i];
      const ClockPair clocks{seen.observers[sent.observer].clock,
                             seen.observers[arrived.observer].clock};
      const std::int64_t took = difference_of(arrived.time, sent.time);
      const auto [found, is_new] = shortest.try_emplace(clocks, took);
      if (!is_new) found->second = std::min(found->second, took);
    }
  }
  return shortest;
}

/// What the clock `b` shows more than `a`: half the difference of the ways there and back, as NTP
/// takes it. Where packets went one way only, the fastest took no time.
std::optional<std::int64_t> ahead(const std::map<ClockPair, std::int64_t>& ways, std::string_view a,
                                  std::string_view b) {
  const auto there = ways.find({a, b}), back = ways.find({b, a});
  if (there != ways.end() && back != ways.end())
    return difference_of(there->second, back->second) / 2;
  if (there != ways.end()) return there->second;
  if (back != ways.end()) return difference_of(0, back->second);
  return std::nullopt;
}

/// With clock `b` set ahead of `a` by so much, no packet arrives before it leaves.
bool fits(const std::map<ClockPair, std::int64_t>& ways, std::string_view a, std::string_view b,
          std::int64_t more) {
  const auto there = ways.find({a, b}), back = ways.find({b, a});
  return (there == ways.end() || there->second >= more) &&
         (back == ways.end() || back->second >= difference_of(0, more));
}

}  // namespace

std::vector<Clock> compare_clocks(const Observations& seen, const Conversations& of) {
  const auto ways = shortest_ways(seen, of);
  std::map<std::string_view, Clock> clocks;
  if (!seen.observers.empty()) clocks[seen.observers.front().clock] = {0, true};
  for (bool found = true; found;) {  // from clocks that are known to those they met
    found = false;
    for (const Observer& o : seen.observers) {
      if (clocks.contains(o.clock)) continue;
      for (const auto& [known, clock] : clocks) {
        const auto more = ahead(ways, known, o.clock);
        if (!more) continue;
        // Clocks that agree well enough, as those of one machine do, are left alone.
        const std::int64_t wall = difference_of(o.wall, seen.observers.front().wall);
        const bool agree = fits(ways, known, o.clock, difference_of(clock.offset, wall));
        clocks[o.clock] =
            agree ? Clock{wall, false} : Clock{difference_of(clock.offset, *more), true};
        found = true;
        break;
      }
    }
  }
  std::vector<Clock> result;
  for (const Observer& o : seen.observers) {
    const auto known = clocks.find(o.clock);
    if (known != clocks.end()) {
      result.push_back(known->second);
    } else {
      result.push_back({difference_of(o.wall, seen.observers.front().wall), false});
    }
  }
  return result;
}

}  // namespace verbena::report
