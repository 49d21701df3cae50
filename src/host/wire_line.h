#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "wire/faulty_wire.h"
#include "wire/wire.h"
#include "wire/wire_counters.h"

namespace verbena::host {

/// A wire, the faults around it, and what was reported of its errors.
struct WireLine {
  explicit WireLine(std::unique_ptr<wire::Wire> w)
      : wire{std::move(w)}, outermost{wire.get()}, counters{wire->counters()} {}

  /// There are more send errors than at the last call, and their reason is a new one.
  [[nodiscard]] bool has_new_send_error() {
    if (std::exchange(send_errors, counters.send_errors) == counters.send_errors) return false;
    if (wire->last_send_error() == reported) return false;
    reported = wire->last_send_error();
    return true;
  }

  std::unique_ptr<wire::Wire> wire;
  std::unique_ptr<wire::FaultyWire> faults{};  // around it; nullptr: none
  wire::Wire* outermost;                       // of these two
  const wire::WireCounters& counters;
  std::uint64_t send_errors = 0;
  std::string reported{};  // the last reason
};

}  // namespace verbena::host
