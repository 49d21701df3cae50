#include "host/wires.h"

#include <cerrno>

namespace verbena::host {

Wires::Wires(std::unique_ptr<wire::Network> network, std::unique_ptr<wire::Capture> capture)
    : capture_{std::move(capture)}, network_{*network}, reserved_{network.get()} {
  lines_.emplace_back(std::move(network));
  if (capture_ == nullptr) return;
  for (WireLine& line : lines_) line.wire->set_tap(capture_.get());
}

void Wires::add(std::unique_ptr<wire::ShmWire> shm) {
  shm_ = shm.get();
  lines_.emplace_back(std::move(shm));
  reserved_ = lines_.front().outermost;
}

packet::Course Wires::course_of(wire::Carriage carriage, const packet::Flow& flow) const {
  using packet::Detour;
  // Without a network, requests wait for rings, which are offered again, until their timers end
  // them.
  const bool nowhere_else = network_forbidden_ || rings_alone(flow.source);
  const packet::Way otherwise = nowhere_else ? packet::Way::host : packet::Way::network;
  switch (carriage) {
    case wire::Carriage::carried:
      return {packet::Way::host, Detour::none};
    case wire::Carriage::other_host:
      return {otherwise, Detour::other_host};
    case wire::Carriage::peer_declines:
      return {otherwise, Detour::peer_declines};
    case wire::Carriage::no_memory:
      return {otherwise, Detour::no_memory};
  }
  return {};
}

Status Wires::open_address(const LocalAddress& local) {
  Status opened = network_forbidden_ ? Error{EADDRINUSE, ""} : network_.open_address(local);
  std::erase(rings_alone_, local.address);
  if (!opened && (shm_ == nullptr || opened.error().code != EADDRINUSE)) return opened;
  if (!opened) rings_alone_.push_back(local.address);
  if (shm_ != nullptr) shm_->open_address(local);
  return Ok{};
}

Result<std::uint16_t> Wires::source_port(const IpAddress& address, Qpn qpn) {
  if (!rings_alone(address)) return network_.source_port(address, qpn);
  // Nothing is bound to it: it only tells flows apart.
  return static_cast<std::uint16_t>(0xC000u | (qpn.value() & 0x3fffu));
}

Status Wires::join(const LocalAddress& group) {
  if (!network_forbidden_) return network_.join(group);
  return Error{ENETUNREACH, group.address.text() +
                                " is a multicast address, and --wire shm takes no network; use "
                                "--wire auto"};
}

bool Wires::hand_over(const packet::Datagram& d, std::uint32_t slot) {
  if (d.way == packet::Way::network) return network_.hand_over(d, slot);
  const packet::Flow flow{.source = d.source,
                          .destination = d.destination,
                          .source_port = d.source_port,
                          .traffic_class = d.traffic_class,
                          .hop_limit = d.hop_limit,
                          .way = d.way};
  const Qpn to{slot << Qpn::kIndexBits};
  const bool carried = choose_way(flow, to).detour == packet::Detour::none;
  return carried && shm_->send_sealed(flow, to, d.bytes);
}

void Wires::add_faults(const settings::FaultSpec& spec, std::span<std::uint8_t> room) {
  for (WireLine& line : lines_) {
    line.faults = std::make_unique<wire::FaultyWire>(*line.wire, spec, room.first(kRoomBytes));
    line.faults->set_tap(capture_.get());
    line.outermost = line.faults.get();
    room = room.subspan(kRoomBytes);
  }
  reserved_ = lines_.front().outermost;
}

bool Wires::receive_often(wire::DatagramSink& sink, Instant now) {
  static constexpr Duration kLongest = std::chrono::microseconds{20};
  static constexpr int kShare = 16;  // of the time since something came
  if (shm_ == nullptr || !shm_->in_use()) return receive(sink);
  std::size_t frames = lines_[kShm].wire->receive(sink);
  if (now < look_at_network_) return frames > 0;
  const std::size_t from_network = lines_[kNetwork].wire->receive(sink);
  if (from_network > 0) network_gave_ = now;
  look_at_network_ = now + std::min<Duration>((now - network_gave_) / kShare, kLongest);
  return frames + from_network > 0;
}

void Wires::message(const registry::PeerMessage& message, wire::DatagramSink& sink) {
  for (WireLine& line : lines_) {
    if (static_cast<std::uint8_t>(line.wire->id()) == message.wire) {
      line.wire->message(message, sink);
    }
  }
}

std::vector<wire::Descriptors> Wires::descriptors() const {
  std::vector<wire::Descriptors> all;
  for (const WireLine& line : lines_) all.push_back(line.wire->descriptors());
  return all;
}

wire::WireCounters Wires::counters() const {
  wire::WireCounters sum;
  for (const WireLine& line : lines_) sum += line.counters;
  return sum;
}

std::optional<wire::FaultCounters> Wires::fault_counters() const {
  std::optional<wire::FaultCounters> sum;
  for (const WireLine& line : lines_) {
    if (line.faults == nullptr) continue;
    if (!sum) sum.emplace();
    *sum += line.faults->fault_counters();
  }
  return sum;
}

Instant Wires::delayed_until() const {
  Instant last{};
  for (const WireLine& line : lines_) {
    if (line.faults != nullptr) last = std::max(last, line.faults->empty_at());
  }
  return last;
}

void Wires::abandon() {
  for (WireLine& line : lines_) line.wire->abandon();
  capture_.reset();
}

}  // namespace verbena::host
