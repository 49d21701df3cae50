#include "host/nic_state.h"

#include <cerrno>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "host/config.h"
#include "system/frame_mappings.h"
#include "wire/capture.h"
#include "wire/udp/udp_wire.h"

namespace verbena::host {

namespace {

/// Why frames don't go by shared memory: those that are captured, or that a network is to lose,
/// take the network. none: they do.
packet::Detour detour() {
  const settings::Settings& s = config();
  if (s.wire == settings::WireKind::udp) return packet::Detour::settings;
  if (!s.pcap.empty()) return packet::Detour::capture;
  return s.faults ? packet::Detour::faults : packet::Detour::none;
}

/// All wires that the settings ask for. `room`: Wires::kRoomBytes.
Result<std::unique_ptr<Wires>> make_wires(registry::Registry& registry,
                                          std::span<std::uint8_t> buffers,
                                          std::span<std::uint8_t> room) {
  std::unique_ptr<wire::Capture> capture;
  if (!config().pcap.empty()) {
    auto opened = wire::Capture::open(config().pcap);
    if (!opened) return opened.error();
    capture = std::move(opened).value();
  }
  auto udp = wire::UdpWire::create(registry, buffers);
  if (!udp) return udp.error();
  auto wires = std::make_unique<Wires>(std::move(udp).value(), std::move(capture));
  if (const packet::Detour why = detour(); why != packet::Detour::none) {
    wires->forgo_shm(why);
  } else {
    auto shm = wire::ShmWire::create(registry);
    if (!shm) return shm.error();
    wires->add(std::move(shm).value());
    if (config().wire == settings::WireKind::shm) wires->forbid_network();
  }
  if (config().faults) wires->add_faults(*config().faults, room);
  return wires;
}

}  // namespace

Result<std::unique_ptr<Nic::State>> Nic::State::create() {
  constexpr std::size_t kUdp = wire::UdpWire::kBufferBytes;
  constexpr std::size_t kRegistry = registry::Registry::kMessageBytes;
  const std::size_t room = config().faults ? Wires::kRoomBytes : 0;
  auto frames = memory::FrameBuffers::create(kUdp + kRegistry + room + RawPorts::kBufferBytes);
  if (!frames) return frames.error();
  const std::span<std::uint8_t> bytes = (*frames)->bytes();
  auto registry = registry::Registry::join(bytes.subspan(kUdp, kRegistry));
  if (!registry) return registry.error();
  auto wires = make_wires(**registry, bytes.first(kUdp), bytes.subspan(kUdp + kRegistry, room));
  if (!wires) return wires.error();
  auto monitor = DeviceMonitor::create();
  if (!monitor) return monitor.error();
  auto outputs = Outputs::open(config());
  if (!outputs) return outputs.error();
  DeviceMonitor& devices = **monitor;
  return std::make_unique<State>(
      std::move(*monitor), ShardParts{.frames = std::move(*frames),
                                      .registry = std::move(registry).value(),
                                      .wires = std::move(wires).value(),
                                      .outputs = std::move(outputs).value(),
                                      .list_devices = [&devices] { return devices.devices(); }});
}

Nic::State::State(std::unique_ptr<DeviceMonitor> monitor, ShardParts parts)
    : monitor_{std::move(monitor)}, thread_{*this}, shard_{std::move(parts), thread_} {
  monitor_->on_change([this] { shard_.devices_changed(); });
}

Status Nic::State::start() {
  return shard_.inspect([&](ShardState& s) {
    NicThread::Descriptors watched{.control = {s.registry->fd(), monitor_->fd()}};
    for (const wire::Descriptors& wire : s.wires->descriptors()) {
      watched.bells.push_back(wire.bell);
      watched.data.push_back(wire.data);
      watched.control.push_back(wire.control);
      if (wire.bell < 0) continue;
      if (auto set = event_wait_.set_bell(wire.bell); !set) return set;
    }
    auto started = thread_.start(watched);
    if (started) s.outputs.announce(*s.wires);
    return started;
  });
}

NicThread::Work::Outcome Nic::State::work(bool control) {
  try {
    if (control) monitor_->serve();
    return shard_.run(control);
  } catch (const std::bad_alloc&) {
    return {now() + kMemoryPause, false, false};
  }
}

void Nic::State::abandon() {
  for_each_shard([](Shard& shard) { shard.abandon(); });
  forget_frame_mappings_after_fork();
  monitor_->abandon();
  event_wait_.abandon();
  thread_.abandon();
}

}  // namespace verbena::host
