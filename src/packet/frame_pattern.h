#pragma once

// What an Ethernet frame must look like for somebody to get it: patterns of its headers. Pure:
// which rule has which patterns is the business of others.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace verbena::packet {

using Mac = std::array<std::uint8_t, 6>;

[[nodiscard]] constexpr bool is_multicast(const Mac& mac) { return (mac[0] & 1) != 0; }

/// The headers that patterns are about.
enum class FrameLayer : std::uint8_t { ethernet, ipv4, ipv6, tcp, udp };

/// The Ethernet header in one piece: destination, source, the type of what is inside, and the tag
/// of the VLAN, 0 where there is none.
inline constexpr std::size_t kEthernetType = 12;
inline constexpr std::size_t kVlanTag = 14;
inline constexpr std::size_t kEthernetPieces = 16;

/// The headers of one frame, found once and looked at by many patterns. The frame must outlive it.
/// Of IPv6, only what follows its header at once; of a fragment, only the first has ports.
class FrameHeaders {
 public:
  explicit FrameHeaders(std::span<const std::uint8_t> frame);

  /// Empty: the frame has no such header, or not all of it.
  [[nodiscard]] std::span<const std::uint8_t> find(FrameLayer layer) const;
  /// Of a frame that has an Ethernet header.
  [[nodiscard]] Mac destination() const;

 private:
  void find_network(std::uint16_t type, std::span<const std::uint8_t> rest);
  void find_transport(std::uint8_t protocol, std::span<const std::uint8_t> rest);

  std::array<std::uint8_t, kEthernetPieces> ethernet_{};
  bool whole_ = false;  // it has an Ethernet header
  FrameLayer network_ = FrameLayer::ethernet;
  std::span<const std::uint8_t> network_bytes_;
  FrameLayer transport_ = FrameLayer::ethernet;
  std::span<const std::uint8_t> transport_bytes_;
};

/// Bytes of one header, of which those bits count that the mask has.
struct HeaderPattern {
  static constexpr std::size_t kSize = 40;  // of the longest header, IPv6's
  using Bytes = std::array<std::uint8_t, kSize>;

  FrameLayer layer = FrameLayer::ethernet;
  Bytes value{};
  Bytes mask{};

  [[nodiscard]] bool matches(const FrameHeaders& headers) const;

  friend bool operator==(const HeaderPattern&, const HeaderPattern&) = default;
};

/// All of them match.
[[nodiscard]] bool matches(std::span<const HeaderPattern> patterns, const FrameHeaders& headers);

}  // namespace verbena::packet
