#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/rnic.h"
#include "host/connections/connection_service.h"
#include "host/observation/outputs.h"
#include "host/raw_packets/raw_ports.h"
#include "host/reachability/reachability.h"
#include "host/system_entropy.h"
#include "host/wires.h"
#include "memory/cuda/gpu_memory.h"
#include "memory/frame_buffers.h"
#include "memory/host_memory.h"
#include "registry/registry.h"

namespace verbena::host {

/// What a shard is made of. The buffers of the wires and of the registry are the first bytes of
/// `frames`, those of raw packets the last ones.
struct ShardParts {
  std::unique_ptr<memory::FrameBuffers> frames;
  std::unique_ptr<registry::Registry> registry;
  std::unique_ptr<Wires> wires;
  Outputs outputs;
  Reachability::ListDevices list_devices;
};

/// What a shard lock guards. Code that is given one runs with the lock held.
struct ShardState {
  /// `watch`: see RawPorts.
  ShardState(ShardParts parts, std::function<bool(int fd)> watch)
      : frames{std::move(parts.frames)},
        program_memory{*frames},
        outputs{std::move(parts.outputs)},
        registry{std::move(parts.registry)},
        wires{std::move(parts.wires)},
        raw{frames->bytes().last(RawPorts::kBufferBytes), std::move(watch)},
        rnic{registry->slot(), program_memory, entropy},
        connections{*registry, *wires, entropy,
                    [this](const IpAddress& a) { return reachability.open_own_address(a); }},
        reachability{rnic, *wires, std::move(parts.list_devices)} {
    observe(outputs.trace());
    rnic.set_ethernet(&raw);
  }
  ShardState(const ShardState&) = delete;
  ShardState& operator=(const ShardState&) = delete;

  /// nullptr: nobody.
  void observe(Trace* trace) {
    rnic.observe(trace);
    wires->observe(trace);
    connections.observe(trace);
  }

  std::unique_ptr<memory::FrameBuffers> frames;
  memory::HostMemory program_memory;
  memory::cuda::GpuMemory gpu_memory;
  Outputs outputs;
  SystemEntropy entropy;
  std::unique_ptr<registry::Registry> registry;
  std::unique_ptr<Wires> wires;
  RawPorts raw;
  engine::Rnic rnic;
  ConnectionService connections;
  Reachability reachability;
  std::uint64_t next_pair = 0;  // number of the next queue pair
};

}  // namespace verbena::host
