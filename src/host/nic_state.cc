#include "host/nic_state.h"

#include <array>
#include <utility>

#include "host/config.h"

namespace verbena::host {

Result<std::unique_ptr<Nic::State>> Nic::State::create() {
  constexpr std::size_t kUdp = wire::UdpWire::kBufferBytes;
  auto frames = memory::FrameBuffers::create(kUdp + RawPorts::kBufferBytes);
  if (!frames) return frames.error();
  auto udp = wire::UdpWire::create((*frames)->bytes().first(kUdp),
                                   {.faults = config().faults, .capture = config().pcap});
  if (!udp) return udp.error();
  auto monitor = DeviceMonitor::create();
  if (!monitor) return monitor.error();
  auto outputs = Outputs::open(config());
  if (!outputs) return outputs.error();
  DeviceMonitor& devices = **monitor;
  return std::make_unique<State>(
      std::move(*monitor), ShardParts{.frames = std::move(*frames),
                                      .wires = Wires{std::move(*udp)},
                                      .outputs = std::move(outputs).value(),
                                      .list_devices = [&devices] { return devices.devices(); }});
}

Nic::State::State(std::unique_ptr<DeviceMonitor> monitor, ShardParts parts)
    : monitor_{std::move(monitor)}, thread_{*this}, shard_{std::move(parts), thread_} {
  monitor_->on_change([this] { shard_.devices_changed(); });
}

Status Nic::State::start() {
  return shard_.inspect([&](ShardState& s) {
    const wire::UdpWire& wire = s.wires.network();
    const std::array control{wire.control_fd(), monitor_->fd()};
    auto started = thread_.start(wire.data_fd(), control);
    if (started) s.outputs.announce(wire);
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
  shard_.abandon();
  monitor_->abandon();
  thread_.abandon();
}

}  // namespace verbena::host
