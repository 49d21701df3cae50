#include "wire/packet_socket.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/bytes.h"
#include "system/fd.h"
#include "system/kernel_calls.h"
#include "system/system_error.h"

namespace verbena::wire {

namespace {

Error failed(const char* call, unsigned interface) {
  const int code = errno;
  const std::string what =
      std::string{call} + " for raw packets on interface " + std::to_string(interface);
  if (code == EPERM) {
    return system_error(code, what,
                        "give the program CAP_NET_RAW, or run it in a network "
                        "namespace of its own (unshare -Urn)");
  }
  return system_error(code, what);
}

sockaddr_ll link_address(unsigned interface, std::uint16_t protocol) {
  sockaddr_ll a{};
  a.sll_family = AF_PACKET;
  a.sll_protocol = htons(protocol);
  a.sll_ifindex = static_cast<int>(interface);
  return a;
}

/// Takes nothing before it is bound to a protocol.
Fd open_socket() {
  return Fd{kernel::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

bool bind_to(const Fd& fd, unsigned interface, std::uint16_t protocol) {
  const sockaddr_ll a = link_address(interface, protocol);
  return kernel::bind(fd.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0;
}

/// What the kernel says of the interface that a socket is bound to. EOPNOTSUPP: its frames have no
/// Ethernet header (a tunnel's, for example).
Result<sockaddr_ll> own_address(const Fd& fd, unsigned interface) {
  sockaddr_ll self{};
  socklen_t length = sizeof self;
  if (kernel::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&self), &length) != 0) {
    return failed("getsockname", interface);
  }
  if (self.sll_hatype == ARPHRD_ETHER || self.sll_hatype == ARPHRD_LOOPBACK) return self;
  return Error{EOPNOTSUPP, "raw packets on interface " + std::to_string(interface) +
                               ": its type is " + std::to_string(self.sll_hatype) +
                               ", not Ethernet (" + std::to_string(ARPHRD_ETHER) + ")"};
}

template <typename T>
bool set_option(const Fd& fd, int level, int option, const T& value) {
  return kernel::setsockopt(fd.get(), level, option, &value, sizeof value) == 0;
}

/// As far as the machine lets an ordinary user go, without a word where it doesn't.
void enlarge_buffer(const Fd& fd) {
  constexpr int kBytes = 4 << 20;
  static_cast<void>(set_option(fd, SOL_SOCKET, SO_RCVBUF, kBytes));
}

/// The tag that the kernel took out of the frame.
std::optional<std::uint32_t> taken_tag(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
    tpacket_auxdata aux{};
    std::memcpy(&aux, CMSG_DATA(c), sizeof aux);
    if ((aux.tp_status & TP_STATUS_VLAN_VALID) == 0) return std::nullopt;
    const std::uint32_t type =
        (aux.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? aux.tp_vlan_tpid : ETH_P_8021Q;
    return type << 16 | aux.tp_vlan_tci;
  }
  return std::nullopt;
}

}  // namespace

Result<PacketSender> PacketSender::open(unsigned interface) {
  Fd fd = open_socket();
  if (!fd) return failed("socket", interface);
  if (!bind_to(fd, interface, 0)) return failed("bind", interface);
  if (const auto self = own_address(fd, interface); !self) return self.error();
  return PacketSender{std::move(fd)};
}

int PacketSender::send(std::span<const std::uint8_t> frame) {
  return kernel::send(fd_.get(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0
             ? errno
             : 0;
}

Result<PacketReceiver> PacketReceiver::open(unsigned interface) {
  Fd fd = open_socket();
  if (!fd) return failed("socket", interface);
  if (!set_option(fd, SOL_PACKET, PACKET_AUXDATA, 1)) return failed("PACKET_AUXDATA", interface);
  enlarge_buffer(fd);
  // The type and address of the interface are known once it is bound, and that must not take
  // frames yet.
  if (!bind_to(fd, interface, 0)) return failed("bind", interface);
  const Result<sockaddr_ll> self = own_address(fd, interface);
  if (!self) return self.error();
  if (self->sll_hatype == ARPHRD_LOOPBACK &&
      !set_option(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)) {
    return failed("PACKET_IGNORE_OUTGOING", interface);
  }
  if (!bind_to(fd, interface, ETH_P_ALL)) return failed("bind", interface);
  packet::Mac address{};
  if (self->sll_halen == address.size()) {
    std::copy_n(static_cast<const unsigned char*>(self->sll_addr), address.size(), address.begin());
  }
  return PacketReceiver{std::move(fd), interface, address};
}

int PacketReceiver::set_membership(int option, const Attention& of) {
  packet_mreq request{};
  request.mr_ifindex = static_cast<int>(interface_);
  switch (of.kind) {
    case Attention::Kind::nothing:
      return 0;
    case Attention::Kind::address:
      request.mr_type = packet::is_multicast(of.address) ? PACKET_MR_MULTICAST : PACKET_MR_UNICAST;
      request.mr_alen = static_cast<unsigned short>(of.address.size());
      std::copy(of.address.begin(), of.address.end(), std::begin(request.mr_address));
      break;
    case Attention::Kind::all_groups:
      request.mr_type = PACKET_MR_ALLMULTI;
      break;
    case Attention::Kind::everything:
      request.mr_type = PACKET_MR_PROMISC;
      break;
  }
  return set_option(fd_, SOL_PACKET, option, request) ? 0 : errno;
}

Status PacketReceiver::attend(const Attention& to) {
  const int code = set_membership(PACKET_ADD_MEMBERSHIP, to);
  if (code == 0) return Ok{};
  return system_error(code, "PACKET_ADD_MEMBERSHIP on interface " + std::to_string(interface_));
}

void PacketReceiver::turn_back(const Attention& from) {
  // The interface may be gone, and the membership with it.
  static_cast<void>(set_membership(PACKET_DROP_MEMBERSHIP, from));
}

std::optional<PacketReceiver::Frame> PacketReceiver::receive(std::span<std::uint8_t> buffer) {
  constexpr std::size_t kMacs = 12;
  constexpr std::size_t kTag = 4;
  for (;;) {
    iovec room{buffer.data() + kTag, buffer.size() - kTag};
    sockaddr_ll from{};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(tpacket_auxdata))> control{};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &room;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = kernel::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    // ENETDOWN is told once; frames come again when the interface is back.
    if (n < 0 && (errno == EINTR || errno == ENETDOWN)) continue;
    if (n < 0) return std::nullopt;
    if ((message.msg_flags & MSG_TRUNC) != 0) continue;
    auto frame = buffer.subspan(kTag, static_cast<std::size_t>(n));
    if (const auto tag = taken_tag(message); tag && frame.size() >= kMacs) {
      std::copy_n(buffer.begin() + kTag, kMacs, buffer.begin());
      store_be32(&buffer[kMacs], *tag);
      frame = buffer.first(frame.size() + kTag);
    }
    return Frame{frame, from.sll_pkttype == PACKET_OUTGOING};
  }
}

}  // namespace verbena::wire
