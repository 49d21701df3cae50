// Protection domains, memory regions and windows, XRC domains.

#include <cerrno>

#include "host/nic_state.h"

namespace verbena::host {

Result<engine::PdId> Nic::alloc_pd() {
  return state_->shard_for_new().locked([&](ShardState& s) { return s.rnic.alloc_pd(); });
}

Status Nic::dealloc_pd(engine::PdId pd) {
  return state_->shard_of(pd).locked([&](ShardState& s) { return s.rnic.dealloc_pd(pd); });
}

namespace {

/// What a region on demand lies on may come later.
Status prepare_region(Shard& shard, const engine::Segment& memory, unsigned access) {
  if ((access & engine::Access::kOnDemand) != 0 || memory.length == 0) return Ok{};
  const bool write = (access & engine::Access::kLocalWrite) != 0;
  return shard.unlocked_rnic().kind_of(memory).prepare(memory, write);
}

/// The range begins in memory of a GPU, and not in the program's own.
bool is_on_gpu(const engine::Segment& memory) {
  return memory.backing == nullptr && Nic::is_gpu_memory(memory.address);
}

/// Says which kind of memory the range is of, where that isn't known.
Status find_kind(ShardState& s, bool on_gpu, engine::Segment& memory) {
  if (!on_gpu) return Ok{};
  const auto found = s.gpu_memory.find(memory);
  if (!found) return found.error();
  memory.backing = *found;
  return Ok{};
}

}  // namespace

bool Nic::is_gpu_memory(std::uint64_t address) { return memory::cuda::GpuMemory::holds(address); }
bool Nic::is_out_of_reach(std::uint64_t address) {
  return memory::cuda::GpuMemory::was_registered() && is_gpu_memory(address);
}
bool Nic::has_gpu_driver() { return memory::cuda::Driver::loaded() != nullptr; }

Result<engine::MemoryRegion> Nic::register_memory(engine::PdId pd, engine::Segment memory,
                                                  std::uint64_t iova, unsigned access) {
  Shard& shard = state_->shard_of(pd);
  const bool on_gpu = is_on_gpu(memory);
  if (!on_gpu) {
    if (auto ready = prepare_region(shard, memory, access); !ready) return ready.error();
  }
  return shard.locked([&](ShardState& s) -> Result<engine::MemoryRegion> {
    if (auto found = find_kind(s, on_gpu, memory); !found) return found.error();
    return s.rnic.register_memory(pd, memory, iova, access);
  });
}

Result<engine::MemoryRegion> Nic::register_null(engine::PdId pd) {
  return state_->shard_of(pd).locked([&](ShardState& s) { return s.rnic.register_null(pd); });
}

Status Nic::prefetch(engine::PdId pd, const engine::Sge& range, bool write) {
  const auto where = state_->shard_of(pd).locked([&](ShardState& s) -> Result<engine::Segment> {
    const engine::MemoryRegion* region = s.rnic.find_region(range.lkey);
    const auto refusal = [&](int code, const char* why) {
      return Error{code, fmt::format("lkey {:#x}: {}", range.lkey.value(), why)};
    };
    if (region == nullptr) return refusal(ENOENT, "no such memory region");
    if (region->pd != pd) return refusal(EPERM, "the region belongs to another protection domain");
    if ((region->access & engine::Access::kOnDemand) == 0) {
      return refusal(EINVAL, "not registered with IBV_ACCESS_ON_DEMAND");
    }
    if (write && (region->access & engine::Access::kLocalWrite) == 0) {
      return refusal(EPERM, "not registered for writing");
    }
    if (!region->contains(range.address, range.length)) return refusal(EINVAL, "beyond its end");
    return region->segment(range.address, range.length);
  });
  if (!where) return where.error();
  return where->length == 0 ? Status{Ok{}} : where->backing->prepare(*where, write);
}

Status Nic::deregister_memory(Key key) {
  return state_->shard_of(key).locked([&](ShardState& s) { return s.rnic.deregister_memory(key); });
}

Result<engine::MemoryRegion> Nic::reregister_memory(Key key, std::optional<engine::PdId> pd,
                                                    std::optional<engine::Segment> memory,
                                                    std::optional<unsigned> access) {
  Shard& shard = state_->shard_of(key);
  auto present = shard.locked([&](ShardState& s) -> Result<engine::MemoryRegion> {
    const engine::MemoryRegion* found = s.rnic.find_region(key);
    if (found == nullptr) return Error{EINVAL, "no such memory region"};
    if (s.rnic.is_null(*found)) return Error{EINVAL, "the region is the null region"};
    return *found;
  });
  if (!present) return present;
  const engine::Segment range =
      memory.value_or(engine::Segment{present->address, present->length, present->backing});
  const bool on_gpu = is_on_gpu(range);
  if (!on_gpu) {
    if (auto ready = prepare_region(shard, range, access.value_or(present->access)); !ready) {
      return ready.error();
    }
  }
  return shard.locked([&](ShardState& s) -> Result<engine::MemoryRegion> {
    if (memory) {
      if (auto found = find_kind(s, on_gpu, *memory); !found) return found.error();
    }
    return s.rnic.reregister_memory(key, pd, memory, access);
  });
}

Result<Key> Nic::alloc_window(engine::PdId pd, engine::MemoryRegion::Type type) {
  return state_->shard_of(pd).locked([&](ShardState& s) { return s.rnic.alloc_window(pd, type); });
}

Status Nic::dealloc_window(Key key) {
  return state_->shard_of(key).locked([&](ShardState& s) { return s.rnic.dealloc_window(key); });
}

Result<engine::XrcdId> Nic::open_xrcd() {
  return state_->shard_for_new().locked([&](ShardState& s) { return s.rnic.open_xrcd(); });
}

Status Nic::close_xrcd(engine::XrcdId xrcd) {
  return state_->shard_of(xrcd).locked([&](ShardState& s) { return s.rnic.close_xrcd(xrcd); });
}

}  // namespace verbena::host
