#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena {

/// An IPv6 address, or an IPv4 one in its mapped form ::ffff:a.b.c.d.
/// A RoCEv2 GID is just this.
class IpAddress {
 public:
  using Bytes = std::array<std::uint8_t, 16>;

  constexpr IpAddress() = default;
  constexpr explicit IpAddress(const Bytes& b) : bytes_{b} {}

  [[nodiscard]] static constexpr IpAddress v4(std::array<std::uint8_t, 4> a) {
    return IpAddress{Bytes{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a[0], a[1], a[2], a[3]}};
  }

  /// nullopt: neither dotted IPv4 nor IPv6 text.
  [[nodiscard]] static std::optional<IpAddress> parse(std::string_view text);

  [[nodiscard]] constexpr const Bytes& bytes() const { return bytes_; }
  [[nodiscard]] constexpr bool is_v4() const {
    constexpr Bytes prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::equal(prefix.begin(), prefix.begin() + 12, bytes_.begin());
  }
  /// Only when is_v4().
  [[nodiscard]] constexpr std::array<std::uint8_t, 4> v4_bytes() const {
    return {bytes_[12], bytes_[13], bytes_[14], bytes_[15]};
  }
  [[nodiscard]] constexpr bool is_link_local() const {
    return !is_v4() && bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
  }

  /// The same address means another thing on each interface: link-local ones, and multicast
  /// groups of interface or link scope (RFC 4291, 2.7).
  [[nodiscard]] constexpr bool needs_interface() const {
    const int scope = bytes_[1] & 0x0f;
    return is_link_local() || (!is_v4() && is_multicast() && (scope == 1 || scope == 2));
  }
  [[nodiscard]] constexpr bool is_multicast() const {
    return is_v4() ? (bytes_[12] & 0xf0) == 0xe0 : bytes_[0] == 0xff;
  }

  [[nodiscard]] std::string text() const;

  friend constexpr auto operator<=>(const IpAddress&, const IpAddress&) = default;
  /// As two words: every frame is compared.
  friend constexpr bool operator==(const IpAddress& a, const IpAddress& b) {
    using Words = std::array<std::uint64_t, 2>;
    return std::bit_cast<Words>(a.bytes_) == std::bit_cast<Words>(b.bytes_);
  }

 private:
  Bytes bytes_{};
};

}  // namespace verbena
