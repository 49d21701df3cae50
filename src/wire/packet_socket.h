#pragma once

// AF_PACKET sockets (packet(7)): whole Ethernet frames of one interface. They need CAP_NET_RAW in
// the network's user namespace; EPERM otherwise. EOPNOTSUPP for interfaces that aren't Ethernet.

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "packet/frame_pattern.h"
#include "system/fd.h"

namespace verbena::wire {

/// Bytes behind which no frame of any interface ends: the largest MTU, and an Ethernet header with
/// a tag.
inline constexpr std::size_t kMaxFrame = 65'536 + 18;

/// Sends frames by one interface, and receives none.
class PacketSender {
 public:
  [[nodiscard]] static Result<PacketSender> open(unsigned interface);

  /// 0, or the errno value of the refusal: EAGAIN and ENOBUFS pass, EMSGSIZE is a frame over the
  /// interface's MTU, ENETDOWN and ENXIO an interface that is disabled or gone.
  [[nodiscard]] int send(std::span<const std::uint8_t> frame);

 private:
  explicit PacketSender(Fd fd) : fd_{std::move(fd)} {}
  Fd fd_;
};

/// What a receiver asks its interface for, beside frames to its own address and to the groups that
/// the host is in.
struct Attention {
  enum class Kind : std::uint8_t { nothing, address, all_groups, everything };
  Kind kind = Kind::nothing;
  packet::Mac address{};

  friend bool operator==(const Attention&, const Attention&) = default;
};

/// Gets a copy of every frame that the interface receives, and of those that the host sends by it,
/// but for its own. On loopback, where each frame that is sent is received, it is seen once.
class PacketReceiver {
 public:
  /// A frame of up to kMaxFrame bytes has room behind the first of `buffer`.
  static constexpr std::size_t kBufferBytes = 4 + kMaxFrame + 4;

  [[nodiscard]] static Result<PacketReceiver> open(unsigned interface);

  // Counted: as many turns back undo it.
  Status attend(const Attention& to);
  void turn_back(const Attention& from);

  struct Frame {
    std::span<const std::uint8_t> bytes;  // in the buffer; with its VLAN tag, if it has one
    bool outgoing = false;
  };
  /// nullopt: none waits.
  [[nodiscard]] std::optional<Frame> receive(std::span<std::uint8_t> buffer);

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The interface's address when it was opened; zeros: it has none.
  [[nodiscard]] const packet::Mac& address() const { return address_; }

 private:
  PacketReceiver(Fd fd, unsigned interface, const packet::Mac& address)
      : fd_{std::move(fd)}, interface_{interface}, address_{address} {}
  [[nodiscard]] int set_membership(int option, const Attention& of);

  Fd fd_;
  unsigned interface_;
  packet::Mac address_;
};

}  // namespace verbena::wire
