#pragma once

// What the headers of an event's packet say, as far as they were recorded.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "packet/packet.h"
#include "tools/report/model.h"

namespace verbena::report {

[[nodiscard]] inline const packet::OpcodeInfo& info_of(const Event& e) {
  return packet::info_of(static_cast<packet::Opcode>(e.opcode));
}

/// What an acknowledgement or a response says.
[[nodiscard]] inline std::optional<packet::Syndrome> syndrome_of(const Event& e) {
  const packet::OpcodeInfo& info = info_of(e);
  if (!info.aeth || e.headers.size() < packet::Bth::kSize + packet::Aeth::kSize)
    return std::nullopt;
  return packet::Syndrome{e.headers[packet::Bth::kSize]};
}

/// A NAK that only asks for what is missing; after any other one, the queue pair is in ERR.
[[nodiscard]] inline bool is_sequence_error(const Event& e) {
  const auto syndrome = syndrome_of(e);
  return e.flags.nak && syndrome && syndrome->nak_code() == packet::NakCode::psn_sequence_error;
}

/// The length in the RETH: of a WRITE or READ, or of a part of a long READ. 0: there is none.
[[nodiscard]] inline std::uint32_t requested_bytes(const Event& e) {
  const packet::OpcodeInfo& info = info_of(e);
  if (!info.reth) return 0;
  std::size_t at = packet::Bth::kSize;
  if (info.xrceth) at += packet::Xrceth::kSize;
  if (info.deth) at += packet::Deth::kSize;
  if (info.feth) at += packet::Feth::kSize;
  const auto reth =
      packet::decode_reth(std::span{e.headers}.subspan(std::min(at, e.headers.size())));
  return reth ? reth->length : 0;
}

}  // namespace verbena::report
