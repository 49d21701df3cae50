#include "wire/udp/receiver.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "system/kernel_calls.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace verbena::wire {
namespace {

/// The number in a control message: IP_TOS is one byte, the others are ints.
std::uint32_t number_in(const cmsghdr* c) {
  if (c->cmsg_len == CMSG_LEN(1)) return *CMSG_DATA(c);
  std::uint32_t value = 0;
  if (c->cmsg_len >= CMSG_LEN(sizeof value)) std::memcpy(&value, CMSG_DATA(c), sizeof value);
  return value;
}

struct Extras {
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::size_t segment = 0;  // 0: not merged
  std::uint32_t drops = 0;
  bool has_drops = false;
};

Extras extras_of(msghdr& message) {
  Extras extras;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    const auto is = [c](int level, int type) {
      return c->cmsg_level == level && c->cmsg_type == type;
    };
    const auto value = number_in(c);
    if (is(IPPROTO_UDP, UDP_GRO)) {
      extras.segment = value;
    } else if (is(SOL_SOCKET, SO_RXQ_OVFL)) {
      extras.drops = value;
      extras.has_drops = true;
    } else if (is(IPPROTO_IP, IP_TOS) || is(IPPROTO_IPV6, IPV6_TCLASS)) {
      extras.traffic_class = static_cast<std::uint8_t>(value);
    } else if (is(IPPROTO_IP, IP_TTL) || is(IPPROTO_IPV6, IPV6_HOPLIMIT)) {
      extras.hop_limit = static_cast<std::uint8_t>(value);
    }
  }
  return extras;
}

}  // namespace

Receiver::Receiver(std::span<std::uint8_t> memory, WireCounters& counters)
    : memory_{memory}, counters_{counters} {
  for (std::size_t i = 0; i < kBuffers; ++i) prepare(i);
}

void Receiver::prepare(std::size_t i) {
  pieces_[i] = {&memory_[i * kBufferBytes], kBufferBytes};
  msghdr& message = messages_[i].msg_hdr;
  message.msg_name = sources_[i].get();
  message.msg_namelen = SocketAddress::capacity();
  message.msg_iov = &pieces_[i];
  message.msg_iovlen = 1;
  message.msg_control = controls_[i].bytes.data();
  message.msg_controllen = sizeof controls_[i].bytes;
}

std::size_t Receiver::take(const ReceiveSocket& socket) {
  if (socket.at_once > 1) {
    const int got =
        kernel::recvmmsg(socket.fd.get(), messages_.data(), socket.at_once, MSG_DONTWAIT, nullptr);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  // What somebody spins for comes alone most often, and a call for many would look for the next
  // one.
  const ssize_t bytes = kernel::recvmsg(socket.fd.get(), &messages_[0].msg_hdr, MSG_DONTWAIT);
  if (bytes < 0) return 0;
  messages_[0].msg_len = static_cast<unsigned>(bytes);
  return 1;
}

std::size_t Receiver::receive(ReceiveSocket& socket, TrainSink& sink) {
  const std::size_t got = take(socket);
  socket.at_once = got > 0 ? kBuffers : 1;
  for (std::size_t i = 0; i < got; ++i) {
    const auto extras = extras_of(messages_[i].msg_hdr);
    if (extras.has_drops) {
      const auto drops = extras.drops - std::exchange(socket.drops_seen, extras.drops);
      counters_.socket_drops += drops;
      if (drops != 0) counters_.port(socket.local.interface).receive_errors += drops;
    }
    const std::size_t bytes = messages_[i].msg_len;
    if (bytes > kLarge) socket.at_once = kFewLarge;
    sink.train({.whole = {.source = sources_[i].address(),
                          .destination = socket.local.address,
                          .source_port = sources_[i].port(),
                          .traffic_class = extras.traffic_class,
                          .hop_limit = extras.hop_limit,
                          .bytes = memory_.subspan(i * kBufferBytes, bytes)},
                .segment = extras.segment == 0 ? bytes : extras.segment});
    prepare(i);
  }
  return got;
}

}  // namespace verbena::wire
