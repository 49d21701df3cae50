#include "host/raw_packets/raw_ports.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "host/log.h"

namespace verbena::host {

namespace {

/// Frames of one interface that receive() takes before it looks at the next.
constexpr int kTurn = 32;

/// What a rule needs the interface to listen to. Without an address in it, that is what it listens
/// to anyway.
wire::Attention attention_of(const FlowRule& rule) {
  using Wanted = wire::Attention::Kind;
  if (rule.kind == FlowRule::Kind::multicast_default) return {.kind = Wanted::all_groups};
  if (rule.kind != FlowRule::Kind::normal) return {.kind = Wanted::everything};
  for (const packet::HeaderPattern& p : rule.patterns) {
    if (p.layer != packet::FrameLayer::ethernet) continue;
    packet::Mac address{};
    const auto counts = std::span{p.mask}.first(address.size());
    if (std::ranges::all_of(counts, [](auto b) { return b == 0; })) continue;
    if (!std::ranges::all_of(counts, [](auto b) { return b == 0xff; })) {
      return {.kind = Wanted::everything};
    }
    std::copy_n(p.value.begin(), address.size(), address.begin());
    return {.kind = Wanted::address, .address = address};
  }
  return {};
}

}  // namespace

RawPorts::RawPorts(std::span<std::uint8_t> buffers, std::function<bool(int fd)> watch)
    : send_room_{buffers.first(wire::kMaxFrame)},
      receive_room_{buffers.last(wire::PacketReceiver::kBufferBytes)},
      watch_{std::move(watch)} {}

void RawPorts::open(const engine::QueuePair& qp, wire::PacketSender sender, unsigned interface,
                    std::optional<Spread> spread) {
  ports_.emplace(qp.qpn.value(), Port{std::move(sender), interface, std::move(spread)});
}

void RawPorts::close(const engine::QueuePair& qp) { ports_.erase(qp.qpn.value()); }

Result<RawPorts::Listener*> RawPorts::listen(unsigned interface) {
  if (const auto found = listeners_.find(interface); found != listeners_.end()) {
    return &found->second;
  }
  auto socket = wire::PacketReceiver::open(interface);
  if (!socket) return socket.error();
  const int fd = socket->fd();
  Listener& listener = listeners_.emplace(interface, Listener{std::move(*socket)}).first->second;
  if (watch_(fd)) return &listener;
  const int code = errno;
  listeners_.erase(interface);
  return Error{code, std::string{"epoll_ctl for raw packets: "} + std::strerror(code)};
}

Result<FlowRules::Id> RawPorts::add_rule(engine::QueuePair& qp, FlowRule rule) {
  const unsigned interface = ports_.at(qp.qpn.value()).interface;
  const Result<Listener*> found = listen(interface);
  if (!found) return found.error();
  Listener& listener = **found;
  const wire::Attention wanted = attention_of(rule);
  if (Status s = listener.socket.attend(wanted); !s) {
    if (listener.rules.empty()) listeners_.erase(interface);
    return s.error();
  }
  const FlowRules::Id id = next_rule_++;
  listener.attention.emplace_back(id, wanted);
  listener.rules.add(id, qp, std::move(rule));
  return id;
}

Status RawPorts::remove_rule(FlowRules::Id id) {
  for (auto it = listeners_.begin(); it != listeners_.end(); ++it) {
    Listener& listener = it->second;
    if (!listener.rules.remove(id)) continue;
    const auto own =
        std::ranges::find(listener.attention, id, &decltype(listener.attention)::value_type::first);
    listener.socket.turn_back(own->second);
    listener.attention.erase(own);
    if (listener.rules.empty()) listeners_.erase(it);
    return Ok{};
  }
  return Error{EINVAL, "there is no such flow"};
}

void RawPorts::deliver(engine::QueuePair& qp, std::span<const std::uint8_t> frame, Taker& taker) {
  const auto& spread = ports_.at(qp.qpn.value()).spread;
  taker.frame(spread ? spread->choose(frame) : qp, frame);
}

bool RawPorts::receive(Taker& taker) {
  bool any = false;
  for (auto& [interface, listener] : listeners_) {
    for (int i = 0; i < kTurn; ++i) {
      const auto frame = listener.socket.receive(receive_room_);
      if (!frame) break;
      any = true;
      listener.rules.receivers({frame->bytes, frame->outgoing}, listener.socket.address(),
                               receivers_);
      for (engine::QueuePair* qp : receivers_) deliver(*qp, frame->bytes, taker);
    }
  }
  return any;
}

std::span<std::uint8_t> RawPorts::room(std::size_t size) {
  return size <= send_room_.size() ? send_room_.first(size) : std::span<std::uint8_t>{};
}

packet::EthernetSink::Sent RawPorts::send(Qpn from, std::span<const std::uint8_t> frame) {
  Port& port = ports_.at(from.value());
  const int code = port.sender.send(frame);
  switch (code) {
    case 0:
      port.reported = 0;
      return Sent::yes;
    case EAGAIN:
    case ENOBUFS:
      return Sent::full;
    case EMSGSIZE:
      return Sent::too_long;
    default:
      break;
  }
  // As with an unplugged cable, the frame is gone and nobody is at fault.
  if (port.reported != code) {
    log(LogLevel::warn, "qp {:#x}: can't send raw packets of {} bytes on interface {}: {}",
        from.value(), frame.size(), port.interface, std::strerror(code));
    port.reported = code;
  }
  return Sent::yes;
}

void RawPorts::abandon() {
  ports_.clear();
  listeners_.clear();
}

}  // namespace verbena::host
