#pragma once

#include <compare>
#include <cstdint>
#include <optional>

namespace verbena {

/// The spaces that rdma_cm's port numbers live in, numbered as enum rdma_ucm_port_space.
enum class PortSpace : std::uint16_t { ipoib = 0x0002, tcp = 0x0106, udp = 0x0111, ib = 0x013f };

/// Names what a request wants to talk to (IBA 12.7.3). rdma_cm writes a port as its space, then
/// the port (annex A11).
class ServiceId {
 public:
  constexpr ServiceId() = default;
  constexpr explicit ServiceId(std::uint64_t v) : v_{v} {}
  constexpr ServiceId(PortSpace space, std::uint16_t port)
      : v_{(std::uint64_t{static_cast<std::uint16_t>(space)} << 16) | port} {}

  [[nodiscard]] constexpr std::uint64_t value() const { return v_; }
  /// nullopt: not one of rdma_cm's.
  [[nodiscard]] constexpr std::optional<PortSpace> space() const {
    switch (v_ >> 16) {
      case 0x0002:
        return PortSpace::ipoib;
      case 0x0106:
        return PortSpace::tcp;
      case 0x0111:
        return PortSpace::udp;
      case 0x013f:
        return PortSpace::ib;
      default:
        return std::nullopt;
    }
  }
  [[nodiscard]] constexpr std::uint16_t port() const { return static_cast<std::uint16_t>(v_); }
  /// Private data of a request begins with an IpCmHeader.
  [[nodiscard]] constexpr bool has_ip_header() const { return space().has_value(); }
  friend constexpr auto operator<=>(ServiceId, ServiceId) = default;

 private:
  std::uint64_t v_ = 0;
};

}  // namespace verbena
