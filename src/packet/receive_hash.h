#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "packet/frame_pattern.h"

namespace verbena::packet {

/// Toeplitz: the hash by which cards spread frames over queues ("receive side scaling").
[[nodiscard]] std::uint32_t toeplitz(std::span<const std::uint8_t> key,
                                     std::span<const std::uint8_t> input);

/// Which queue a frame goes to: frames that are equal in these fields go to the same.
class ReceiveHash {
 public:
  static constexpr std::size_t kKeySize = 40;
  using Key = std::array<std::uint8_t, kKeySize>;

  /// Numbered as ibv_rx_hash_fields.
  enum Field : std::uint32_t {
    kSourceIpv4 = 1u << 0,
    kDestinationIpv4 = 1u << 1,
    kSourceIpv6 = 1u << 2,
    kDestinationIpv6 = 1u << 3,
    kSourceTcp = 1u << 4,
    kDestinationTcp = 1u << 5,
    kSourceUdp = 1u << 6,
    kDestinationUdp = 1u << 7,
  };
  static constexpr std::uint32_t kAll = 0xff;

  ReceiveHash(const Key& key, std::uint32_t fields) : key_{key}, fields_{fields} {}

  /// Addresses before ports, source before destination. 0: the frame has none of the fields.
  [[nodiscard]] std::uint32_t of(const FrameHeaders& headers) const;

 private:
  Key key_;
  std::uint32_t fields_;
};

}  // namespace verbena::packet
