#pragma once

// Registrations that are kept for the next use of the same memory.

#include <cstdint>
#include <list>
#include <unordered_map>

#include "rdma++/rdma.h"

namespace registration {

/// The least recently used goes first. Whoever frees memory must call forget() before: the key of
/// a registration whose pages belong to somebody else by now is the classic bug of such caches.
class RegionCache {
 public:
  RegionCache(const rdma::ProtectionDomain& pd, std::size_t capacity)
      : pd_{pd}, capacity_{capacity} {}

  [[nodiscard]] const rdma::MemoryRegion& of(std::span<std::byte> memory) {
    const auto known = where_.find(memory.data());
    if (known != where_.end() && known->second->size() >= memory.size()) {
      ++hits_;
      order_.splice(order_.begin(), order_, known->second);
      return order_.front();
    }
    ++misses_;
    forget(memory);
    if (order_.size() == capacity_) forget(order_.back().bytes());
    order_.emplace_front(pd_, memory, rdma::Access::local_write);
    where_[memory.data()] = order_.begin();
    return order_.front();
  }
  void forget(std::span<std::byte> memory) {
    const auto known = where_.find(memory.data());
    if (known == where_.end()) return;
    const auto entry = known->second;
    where_.erase(known);
    order_.erase(entry);
  }

  [[nodiscard]] std::uint64_t hits() const { return hits_; }
  [[nodiscard]] std::uint64_t misses() const { return misses_; }

 private:
  const rdma::ProtectionDomain& pd_;
  std::size_t capacity_;
  std::list<rdma::MemoryRegion> order_;  // the last used first
  std::unordered_map<std::byte*, std::list<rdma::MemoryRegion>::iterator> where_;
  std::uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace registration
