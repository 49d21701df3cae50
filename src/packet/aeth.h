#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"

namespace verbena::packet {

/// Why a request was refused (IBA 9.7.5.2.8, the NAK codes).
enum class NakCode : std::uint8_t {
  psn_sequence_error = 0,
  invalid_request = 1,
  remote_access_error = 2,
  remote_operational_error = 3,
  invalid_rd_request = 4,
};

/// The syndrome byte: two bits of type, five bits of value (IBA table 43).
class Syndrome {
 public:
  enum class Type : std::uint8_t { ack = 0, rnr_nak = 1, reserved = 2, nak = 3 };
  static constexpr std::uint8_t kNoCredits = 0x1f;  // "credits are not reported here"

  constexpr Syndrome() = default;
  constexpr explicit Syndrome(std::uint8_t v) : v_{v} {}
  [[nodiscard]] static constexpr Syndrome ack(std::uint8_t credits = kNoCredits) {
    return Syndrome{static_cast<std::uint8_t>(credits & 0x1f)};
  }
  [[nodiscard]] static constexpr Syndrome rnr_nak(std::uint8_t timer) {
    return Syndrome{static_cast<std::uint8_t>(0x20 | (timer & 0x1f))};
  }
  [[nodiscard]] static constexpr Syndrome nak(NakCode code) {
    return Syndrome{static_cast<std::uint8_t>(0x60 | static_cast<std::uint8_t>(code))};
  }

  [[nodiscard]] constexpr std::uint8_t value() const { return v_; }
  [[nodiscard]] constexpr Type type() const { return static_cast<Type>((v_ >> 5) & 3); }
  [[nodiscard]] constexpr std::uint8_t credits() const { return v_ & 0x1f; }
  [[nodiscard]] constexpr std::uint8_t rnr_timer() const { return v_ & 0x1f; }
  [[nodiscard]] constexpr NakCode nak_code() const { return static_cast<NakCode>(v_ & 0x1f); }
  friend constexpr bool operator==(Syndrome, Syndrome) = default;

 private:
  std::uint8_t v_ = kNoCredits;
};

/// ACK extended transport header (IBA 9.3.5).
struct Aeth {
  static constexpr std::size_t kSize = 4;

  Syndrome syndrome;
  std::uint32_t msn = 0;  // 24 bits: messages completed by the responder

  friend constexpr bool operator==(const Aeth&, const Aeth&) = default;
};

[[nodiscard]] constexpr std::optional<Aeth> decode_aeth(std::span<const std::uint8_t> b) {
  if (b.size() < Aeth::kSize) return std::nullopt;
  return Aeth{Syndrome{b[0]}, load_be24(&b[1])};
}

/// `b` holds at least Aeth::kSize bytes.
constexpr void encode_aeth(const Aeth& h, std::span<std::uint8_t> b) {
  b[0] = h.syndrome.value();
  store_be24(&b[1], h.msn);
}

}  // namespace verbena::packet
