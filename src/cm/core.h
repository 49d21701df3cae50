#pragma once

// What the handlers of the connection manager share.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/entropy.h"
#include "base/result.h"
#include "base/time.h"
#include "cm/answers.h"
#include "cm/comm_ids.h"
#include "cm/connection.h"
#include "cm/connection_record.h"
#include "cm/connection_table.h"
#include "cm/counters.h"
#include "cm/event.h"
#include "cm/listeners.h"
#include "cm/route.h"
#include "packet/cm_mad.h"

namespace verbena::cm {

struct Config {
  std::uint32_t slot = 0;  // the part of the communication ids that is ours
  std::size_t max_connections = 16'384;
  std::size_t max_answers = 4'096;  // that are kept for retries
  packet::CmTimeout ack_delay{15};  // ours, as the kernel's rxe
};

/// Where and when the message at hand came.
struct Received {
  Route route{};
  std::uint64_t transaction = 0;
  Instant now{};
};

struct Core {
  Core(const Config& c, Entropy& entropy)
      : config{c}, ids{c.slot, entropy}, table{c.max_connections}, answers{c.max_answers} {}

  Config config;
  CommIds ids;
  ConnectionTable table;
  Listeners listeners;
  Answers answers;
  std::vector<OutgoingMad> outbox;
  std::vector<Event> events;
  Counters counters;
  Records* records = nullptr;  // nobody keeps them
  std::uint64_t next_id = 1;

  [[nodiscard]] ConnectionId new_id() { return ConnectionId{next_id++}; }

  packet::MadBytes send(const Route& route, std::uint64_t transaction,
                        const packet::CmMessage& message);
  void resend(const OutgoingMad& mad);
  void tell(const Connection& c, Event event);

  /// Sends it, and retries it until stop_waiting() or until the retries are used up.
  void send_and_wait(Connection& c, std::uint64_t transaction, const packet::CmMessage& message,
                     Instant now);
  /// The retry schedule of its pending message has changed.
  void reschedule(Connection& c);
  void stop_waiting(Connection& c);

  /// Retries of the REQ that began it get this answer.
  void remember(const Connection& c, const OutgoingMad& answer);

  void leave_backlog(Connection& c);
  void remove(Connection& c);
};

/// The connection that a message from its peer names by both ids. nullptr: none; that is counted.
[[nodiscard]] Connection* find_connection(Core& core, const Received& r, packet::CommId local_id,
                                          packet::CommId remote_id);

/// A copy with zeros behind it. The caller has checked that it fits.
template <std::size_t N>
[[nodiscard]] std::array<std::uint8_t, N> filled_up(std::span<const std::uint8_t> bytes) {
  std::array<std::uint8_t, N> out{};
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return out;
}

/// EINVAL: more than a message holds.
[[nodiscard]] Status check_size(const char* call, const char* what, std::size_t size,
                                std::size_t limit);
[[nodiscard]] Error no_such_connection(const char* call, ConnectionId id);
[[nodiscard]] Error wrong_state(const char* call, const Connection& c, const char* expected);

}  // namespace verbena::cm
