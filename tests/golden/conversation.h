#pragma once

// A recorded conversation between two kernels, read back: the packets of NAME.pcap with their
// direction, and what the programs on both sides saw, from NAME.txt.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers.h"
#include "base/psn.h"
#include "engine/attributes.h"
#include "engine/completion.h"
#include "packet/packet.h"
#include "tests/support/pcap.h"

namespace verbena::test {

/// One packet of the recording.
struct Frame {
  std::size_t number = 0;  // from 1, as Wireshark counts
  bool from_requester = false;
  Captured captured;
  packet::Packet packet;  // its payload lies in `captured`

  /// BTH … pad.
  [[nodiscard]] std::span<const std::uint8_t> bytes() const {
    return std::span{captured.payload}.first(captured.payload.size() - packet::kIcrcSize);
  }
};

/// A completion that a recorded program polled.
struct Polled {
  std::uint64_t wr_id = 0;
  engine::CompletionStatus status = engine::CompletionStatus::success;
  std::string opcode;        // as pyverbs names it; empty when it failed
  std::uint32_t length = 0;  // 0 when it failed
  std::optional<packet::Immediate> immediate;
};

/// NAME.txt.
struct Story {
  Qpn requester;
  Qpn responder;
  Psn psn;  // the requester's first
  Key rkey;
  std::uint64_t address = 0;  // of the responder's buffer
  std::vector<Polled> requester_polled;
  std::vector<Polled> responder_polled;
  engine::QpState requester_state = engine::QpState::reset;
  engine::QpState responder_state = engine::QpState::reset;
  std::uint32_t responder_crc = 0;  // CRC-32 of the responder's whole buffer, at the end
  std::size_t dropped = 0;          // packets that the receiver's side threw away
};

/// What the recorded requester's program posted, put together from the packets.
struct Message {
  packet::Packet first;  // of the first packet: RETH, AtomicETH
  packet::Packet last;   // of the last one: immediate, IETH, solicited
  Psn first_psn;
  std::uint32_t packets = 0;
  std::vector<std::uint8_t> payload{};  // SEND and WRITE

  [[nodiscard]] packet::Kind kind() const { return first.info().kind; }
  [[nodiscard]] bool is_read() const { return kind() == packet::Kind::read_request; }
  /// An ACK of something later doesn't complete it: it brings data back.
  [[nodiscard]] bool needs_response() const {
    return is_read() || kind() == packet::Kind::compare_swap || kind() == packet::Kind::fetch_add;
  }
  /// Bytes of the requester's memory that it takes.
  [[nodiscard]] std::uint32_t length() const;
  [[nodiscard]] bool holds(Psn psn) const {
    const auto at = distance(psn, first_psn);
    return at >= 0 && static_cast<std::uint32_t>(at) < packets;
  }
};

struct Conversation {
  std::string name;
  std::vector<Frame> frames;
  Story story;

  /// Empty when the recording can't be read; the reason has been reported to GoogleTest.
  [[nodiscard]] static std::optional<Conversation> read(std::string_view name);

  /// Retransmissions left out.
  [[nodiscard]] std::vector<Message> messages(std::uint16_t mtu) const;
  /// The bytes that the responder returned for `m`: all of a READ, the old value of an atomic.
  [[nodiscard]] std::vector<std::uint8_t> returned(const Message& m) const;
};

/// The buffers of the recorded programs. Each responder had one region of this size, filled
/// with 3, 10, 17, …; receives were posted into its second half, all at the same place.
inline constexpr std::size_t kResponderBuffer = 65'536;
inline constexpr std::size_t kReceiveOffset = 32'768;
[[nodiscard]] std::vector<std::uint8_t> responder_buffer();

/// CRC-32 as in zlib.
[[nodiscard]] std::uint32_t crc32(std::span<const std::uint8_t> bytes);

}  // namespace verbena::test
