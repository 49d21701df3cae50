// Protection domains, memory regions and windows.

#include <cerrno>
#include <new>
#include <string>

#include "engine/rnic.h"
#include "engine/setup_error.h"
#include "engine/window_binding.h"

namespace verbena::engine {

Result<PdId> Rnic::alloc_pd() try {
  if (domains_.size() >= Limits::kMaxDomains) {
    return Error{ENOMEM, "all protection domains are in use"};
  }
  while (next_pd_ == 0 || domains_.contains(next_pd_)) ++next_pd_;
  domains_.emplace(next_pd_, 0);
  return PdId{next_pd_++};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Rnic::dealloc_pd(PdId pd) try {
  const auto it = domains_.find(static_cast<std::uint32_t>(pd));
  if (it == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (it->second != 0) {
    return Error{EBUSY, std::to_string(it->second) +
                            " regions or queue pairs are still in the protection domain"};
  }
  domains_.erase(it);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Key Rnic::new_key() {
  Key key{entropy_.next()};
  while (!keys_.is_free(key)) key = Key{entropy_.next()};
  return key;
}

namespace {

Status check_region(Segment memory, std::uint64_t iova, unsigned access) {
  // IBA 10.6.3.1: remote write and atomic need local write.
  const unsigned remote = Access::kRemoteWrite | Access::kRemoteAtomic;
  if ((access & remote) != 0 && (access & Access::kLocalWrite) == 0) {
    return Error{EINVAL, "remote write or atomic access needs local write access, too"};
  }
  if (iova + memory.length < iova || memory.address + memory.length < memory.address) {
    return Error{EINVAL, "the range wraps around the end of the address space"};
  }
  return Ok{};
}

}  // namespace

Result<MemoryRegion> Rnic::register_memory(PdId pd, Segment memory, std::uint64_t iova,
                                           unsigned access) try {
  const auto domain = domains_.find(static_cast<std::uint32_t>(pd));
  if (domain == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (keys_.size() >= Limits::kMaxRegions) return Error{ENOMEM, "all memory regions are in use"};
  if ((access & Access::kZeroBased) != 0) iova = 0;
  if (auto legal = check_region(memory, iova, access); !legal) return legal.error();
  const MemoryRegion region{.key = new_key(),
                            .pd = pd,
                            .access = access,
                            .iova = iova,
                            .address = memory.address,
                            .length = memory.length,
                            .backing = &kind_of(memory)};
  keys_.insert(region);
  region.backing->add_region();
  ++domain->second;
  return region;
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<MemoryRegion> Rnic::register_null(PdId pd) {
  return register_memory(pd, {0, ~std::uint64_t{0}, &null_memory_}, 0, Access::kLocalWrite);
}

const MemoryRegion* Rnic::find_region(Key key) const {
  const MemoryRegion* found = keys_.find(key);
  return found != nullptr && found->type == MemoryRegion::Type::region ? found : nullptr;
}

Status Rnic::deregister_memory(Key key) try {
  const MemoryRegion* region = find_region(key);
  if (region == nullptr) return Error{EINVAL, "no such memory region"};
  if (region->windows != 0) {
    return Error{EBUSY, std::to_string(region->windows) + " memory windows are bound to it"};
  }
  --domains_.at(static_cast<std::uint32_t>(region->pd));
  region->backing->drop_region();
  keys_.erase(key);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<MemoryRegion> Rnic::reregister_memory(Key key, std::optional<PdId> pd,
                                             std::optional<Segment> memory,
                                             std::optional<unsigned> access) try {
  MemoryRegion* found = keys_.find(key);
  if (find_region(key) == nullptr) return Error{EINVAL, "no such memory region"};
  if (found->windows != 0) {
    return Error{EBUSY, std::to_string(found->windows) + " memory windows are bound to it"};
  }
  MemoryRegion changed = *found;
  if (pd) changed.pd = *pd;
  if (access) changed.access = *access;
  if (memory) {
    changed.address = changed.iova = memory->address;
    changed.length = memory->length;
    changed.backing = &kind_of(*memory);
  }
  if ((changed.access & Access::kZeroBased) != 0) changed.iova = 0;
  const auto domain = domains_.find(static_cast<std::uint32_t>(changed.pd));
  if (domain == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (auto legal = check_region({changed.address, changed.length}, changed.iova, changed.access);
      !legal) {
    return legal.error();
  }
  --domains_.at(static_cast<std::uint32_t>(found->pd));
  ++domain->second;
  changed.backing->add_region();
  found->backing->drop_region();
  *found = changed;
  return changed;
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<Key> Rnic::alloc_window(PdId pd, MemoryRegion::Type type) try {
  const auto domain = domains_.find(static_cast<std::uint32_t>(pd));
  if (domain == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (type == MemoryRegion::Type::region) return Error{EINVAL, "not a type of memory window"};
  if (keys_.size() >= Limits::kMaxRegions) return Error{ENOMEM, "all memory windows are in use"};
  const Key key = new_key();
  keys_.insert({.key = key, .pd = pd, .type = type, .bound = false});
  ++domain->second;
  return key;
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Rnic::dealloc_window(Key key) try {
  MemoryRegion* window = keys_.find_window(key);
  if (window == nullptr || window->type == MemoryRegion::Type::region) {
    return Error{EINVAL, "no such memory window"};
  }
  unbind(keys_, *window);
  --domains_.at(static_cast<std::uint32_t>(window->pd));
  keys_.erase(window->key);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace verbena::engine
