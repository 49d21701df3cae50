#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "packet/mad.h"

namespace verbena::packet {

inline constexpr std::uint8_t kCmClass = 0x07;
inline constexpr std::uint8_t kCmClassVersion = 2;

/// The messages of the connection manager (IBA table 98).
enum class CmAttribute : std::uint16_t {
  req = 0x10,
  mra = 0x11,
  rej = 0x12,
  rep = 0x13,
  rtu = 0x14,
  dreq = 0x15,
  drep = 0x16,
  sidr_req = 0x17,
  sidr_rep = 0x18,
  lap = 0x19,
  apr = 0x1a,
};

/// What a MAD holds behind its header.
inline constexpr std::size_t kCmDataSize = kMadSize - MadHeader::kSize;
using CmData = std::span<const std::uint8_t, kCmDataSize>;
using CmDataOut = std::span<std::uint8_t, kCmDataSize>;

/// A message always carries all of it, zeros behind what the program gave.
template <std::size_t N>
using CmPrivateData = std::array<std::uint8_t, N>;
using CmAdditionalInfo = std::array<std::uint8_t, 72>;

}  // namespace verbena::packet
