#include "packet/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "packet/internet_headers.h"
#include "packet/packet.h"

namespace verbena::packet {
namespace {

constexpr std::size_t kMaskedLrhSize = 8;  // stands for the InfiniBand link header: all ones

/// The covered bytes up to the end of the BTH. They begin as ones, so that the masked fields
/// are those that nobody writes.
class Prefix {
 public:
  Prefix(const IcrcHeaders& headers, std::span<const std::uint8_t> frame) {
    bytes_.fill(0xff);
    const std::size_t udp_length = kUdpSize + frame.size() + kIcrcSize;
    if (headers.source.is_v4()) {
      add_ipv4(headers, udp_length);
    } else {
      add_ipv6(headers, udp_length);
    }
    add_udp(headers, udp_length);
    add_bth(frame);
  }

  [[nodiscard]] const std::uint8_t* data() const { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  void add_ipv4(const IcrcHeaders& headers, std::size_t udp_length) {
    std::uint8_t* const ip = bytes_.data() + size_;
    const auto source = headers.source.v4_bytes();
    const auto destination = headers.destination.v4_bytes();
    ip[0] = 0x45;
    store_be16(ip + 2, static_cast<std::uint16_t>(kIpv4Size + udp_length));
    store_be16(ip + 4, headers.identification);
    store_be16(ip + 6, kDontFragment);
    ip[9] = kUdpProtocol;
    std::copy(source.begin(), source.end(), ip + 12);
    std::copy(destination.begin(), destination.end(), ip + 16);
    size_ += kIpv4Size;
  }

  void add_ipv6(const IcrcHeaders& headers, std::size_t udp_length) {
    std::uint8_t* const ip = bytes_.data() + size_;
    ip[0] = 0x6f;  // the low half belongs to the traffic class
    store_be16(ip + 4, static_cast<std::uint16_t>(udp_length));
    ip[6] = kUdpProtocol;
    std::copy(headers.source.bytes().begin(), headers.source.bytes().end(), ip + 8);
    std::copy(headers.destination.bytes().begin(), headers.destination.bytes().end(), ip + 24);
    size_ += kIpv6Size;
  }

  void add_udp(const IcrcHeaders& headers, std::size_t udp_length) {
    std::uint8_t* const udp = bytes_.data() + size_;
    store_be16(udp, headers.source_port);
    store_be16(udp + 2, headers.destination_port);
    store_be16(udp + 4, static_cast<std::uint16_t>(udp_length));
    size_ += kUdpSize;
  }

  /// What arrives may be shorter than a BTH.
  void add_bth(std::span<const std::uint8_t> frame) {
    constexpr std::size_t kCongestionByte = 4;  // FECN, BECN, reserved: routers change it
    const std::size_t n = std::min(frame.size(), Bth::kSize);
    std::copy_n(frame.begin(), n, bytes_.data() + size_);
    bytes_[size_ + kCongestionByte] = 0xff;
    size_ += n;
  }

  std::array<std::uint8_t, kMaskedLrhSize + kIpv6Size + kUdpSize + Bth::kSize> bytes_;
  std::size_t size_ = kMaskedLrhSize;
};

// Polynomials over GF(2) modulo the CRC's P, in the CRC's own bit order: bit 31 is x^0.
using Polynomial = std::uint32_t;

constexpr Polynomial kP = 0xedb8'8320u;  // without x^32
constexpr Polynomial kOne = 0x8000'0000u;

constexpr Polynomial times_x(Polynomial a) { return (a >> 1) ^ (kP & (0u - (a & 1u))); }

constexpr Polynomial over_x(Polynomial a) {
  return (a & kOne) != 0 ? ((a ^ kP) << 1) | 1u : a << 1;
}
static_assert(over_x(times_x(0x0000'0001u)) == 0x0000'0001u);
static_assert(over_x(times_x(0x1234'5678u)) == 0x1234'5678u);

constexpr Polynomial times(Polynomial a, Polynomial b) {
  Polynomial product = 0;
  for (int power = 31; power >= 0; --power) {
    product ^= b & (0u - ((a >> power) & 1u));
    b = times_x(b);
  }
  return product;
}

constexpr Polynomial over_bytes(Polynomial a, std::size_t bytes) {
  for (std::size_t bit = 0; bit < 8 * bytes; ++bit) a = over_x(a);
  return a;
}

/// x^-(8 bytes) by squaring.
constexpr Polynomial inverse_power(std::size_t bytes) {
  Polynomial result = kOne;
  for (Polynomial square = over_bytes(kOne, 1); bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) result = times(result, square);
    square = times(square, square);
  }
  return result;
}

/// From the end of the identification to the frame, and the 4 bytes by which a CRC shifts.
constexpr std::size_t kFixedShift = (kIpv4Size - 6) + kUdpSize + 4;

/// Frames of a 9,000-byte interface and some more; longer ones take the slower way.
constexpr std::size_t kTableSize = 9'216;

/// [n]: what undoes the way of the identification through a frame of n bytes.
constexpr auto kUnshift = [] {
  std::array<Polynomial, kTableSize> t{};
  t[0] = over_bytes(kOne, kFixedShift);
  for (std::size_t n = 1; n < t.size(); ++n) t[n] = over_bytes(t[n - 1], 1);
  return t;
}();
static_assert(kUnshift.back() == inverse_power(kFixedShift + kTableSize - 1));

constexpr Polynomial unshift(std::size_t frame_size) {
  return frame_size < kTableSize ? kUnshift[frame_size] : inverse_power(kFixedShift + frame_size);
}

}  // namespace

std::uint32_t icrc(const IcrcHeaders& headers, std::span<const std::uint8_t> frame) {
  const Prefix prefix{headers, frame};
  const auto rest = frame.subspan(std::min(frame.size(), Bth::kSize));
  const std::uint32_t crc = crc32_gzip_refl(0, prefix.data(), prefix.size());
  return rest.empty() ? crc : crc32_gzip_refl(crc, rest.data(), rest.size());
}

std::uint32_t load_icrc(const std::uint8_t* p) {
  return (std::uint32_t{p[3]} << 24) | (std::uint32_t{p[2]} << 16) | (std::uint32_t{p[1]} << 8) |
         p[0];
}

void store_icrc(std::uint8_t* p, std::uint32_t value) {
  p[0] = static_cast<std::uint8_t>(value);
  p[1] = static_cast<std::uint8_t>(value >> 8);
  p[2] = static_cast<std::uint8_t>(value >> 16);
  p[3] = static_cast<std::uint8_t>(value >> 24);
}

std::optional<std::uint16_t> recover_identification(const IcrcHeaders& headers,
                                                    std::span<const std::uint8_t> frame,
                                                    std::uint32_t received) {
  const bool hidden = headers.source.is_v4();
  const std::uint16_t expected = hidden ? headers.identification : std::uint16_t{0};
  const std::uint32_t difference = received ^ icrc(headers, frame);
  if (difference == 0) return expected;
  if (!hidden) return std::nullopt;

  // CRC is linear: (identification − expected)(x) · x^(8 · bytes behind it + 32) mod P is the
  // difference. Only a polynomial of degree 15 or less is that of two identifications.
  const Polynomial solution = times(difference, unshift(frame.size()));
  if ((solution & 0xffffu) != 0) return std::nullopt;
  const auto first_byte = (solution >> 16) & 0xffu;
  const auto second_byte = solution >> 24;
  return static_cast<std::uint16_t>(((first_byte << 8) | second_byte) ^ expected);
}

}  // namespace verbena::packet
