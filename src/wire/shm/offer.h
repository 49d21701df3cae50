#pragma once

// What the processes of a pair say to each other by way of the registry. Both are on one machine:
// host byte order.
//
//   A                                        B
//   |--- offer: its segment, its bell ------>|   maps it, and reads A's ring
//   |<-- offer, which answers A's -----------|   so that A sees how far
//   or
//   |<-- refusal ----------------------------|   A sends otherwise
//
// Offers may cross: then each is the answer to the other. An answer is never answered by an offer,
// so the conversation ends. A process that drops a link refuses the other's end of it.

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace verbena::wire::shm {

struct Message {
  enum class Kind : std::uint32_t { offer = 1, refusal = 2 };
  /// Descriptors of an offer.
  enum : std::size_t { kSegment = 0, kBell = 1, kDescriptors = 2 };

  Kind kind{};
  std::uint32_t slot = 0;     // the sender's
  std::uint64_t link = 0;     // of the offer, or the one that is refused: chosen at random
  std::uint64_t answers = 0;  // an offer: the link of the other's that it answers; 0: none

  [[nodiscard]] std::span<const std::uint8_t> bytes() const {
    return {reinterpret_cast<const std::uint8_t*>(this), sizeof *this};
  }
  /// nullopt: not a message.
  [[nodiscard]] static std::optional<Message> of(std::span<const std::uint8_t> bytes) {
    Message m;
    if (bytes.size() != sizeof m) return std::nullopt;
    std::memcpy(&m, bytes.data(), sizeof m);
    return m;
  }
};
static_assert(std::is_trivially_copyable_v<Message> && sizeof(Message) == 24);

}  // namespace verbena::wire::shm
