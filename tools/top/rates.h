#pragma once

// What happened between two looks, per second.

#include <optional>
#include <string>

#include "tools/top/sample.h"

namespace verbena::top {

/// nullopt: the device doesn't count it.
struct Rates {
  std::optional<double> sent_bytes{};  // of a port with headers, of a queue pair payload
  std::optional<double> received_bytes{};
  std::optional<double> sent_packets{};
  std::optional<double> received_packets{};
  std::optional<double> requests{};  // send requests that completed
  std::optional<double> receives{};  // that completed
  std::optional<double> retransmissions{};
  std::optional<double> rnr{};  // "receiver not ready", sent or received
};

/// Adds each, as far as it is known.
Rates& operator+=(Rates& sum, const Rates& more);

/// The last two looks.
struct Pair {
  Sample before{};
  Sample now{};

  /// Seconds between them; 0: there was only one.
  [[nodiscard]] double seconds() const;
};

/// What a thing counted before; nullptr: it wasn't there, or it is another one with the same
/// number, because a counter went back.
[[nodiscard]] const Process* before_of(const Pair& looks, const Process& now);
[[nodiscard]] const QueuePair* before_of(const Process* before, const QueuePair& now);
[[nodiscard]] const Port* before_of(const Process* before, const Port& now);
[[nodiscard]] const Port* kernel_port_before(const Pair& looks, const Port& now);

/// `before` as before_of() has it. nullopt: there is nothing to compare with.
[[nodiscard]] std::optional<Rates> rates_of(const Port* before, const Port& now, double seconds);
[[nodiscard]] std::optional<Rates> rates_of(const QueuePair* before, const QueuePair& now,
                                            double seconds);
/// A process on one port: the rates of the port, and the requests of its queue pairs there.
[[nodiscard]] std::optional<Rates> rates_of(const Pair& looks, const Process& process,
                                            const Port& port);

/// Per second, of one counter; nullopt: there is nothing to compare with.
[[nodiscard]] std::optional<double> rate_of(const Counters* before, const Counters& now,
                                            std::string_view name, double seconds);

}  // namespace verbena::top
