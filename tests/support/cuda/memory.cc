#include "tests/support/cuda/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "tests/support/cuda/calls.h"
#include "tests/support/cuda/control.h"
#include "tests/support/cuda/ranges.h"

namespace stand_in {

Physical::Physical(std::size_t size)
    : size_{whole_pages(size)}, descriptor_{memfd_create("gpu memory", MFD_CLOEXEC)} {
  static std::atomic<std::uint64_t> last_id{0};
  id_ = ++last_id;
  if (descriptor_ < 0) throw std::bad_alloc{};
  void* at = MAP_FAILED;
  if (ftruncate(descriptor_, static_cast<off_t>(size_)) == 0)
    at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (at == MAP_FAILED) {
    close(descriptor_);
    throw std::bad_alloc{};
  }
  bytes_ = static_cast<std::byte*>(at);
}

Physical::~Physical() {
  munmap(bytes_, size_);
  close(descriptor_);
}

const std::pair<const std::uint64_t, Mapping>* Range::mapping_of(std::uint64_t address) const {
  auto next = mappings.upper_bound(address);
  if (next == mappings.begin()) return nullptr;
  --next;
  return address - next->first < next->second.size ? &*next : nullptr;
}

Ranges& ranges() {
  static Ranges& only = *new Ranges;
  return only;
}

Range* Ranges::of(std::uint64_t address) {
  auto next = by_start.upper_bound(address);
  if (next == by_start.begin()) return nullptr;
  Range& range = (--next)->second;
  return address - range.start < range.size ? &range : nullptr;
}

bool Ranges::overlaps(std::uint64_t address, std::uint64_t size) const {
  auto next = by_start.lower_bound(address + size);
  if (next == by_start.begin()) return false;
  return (--next)->second.end() > address;
}

Range& Ranges::add(Range range) {
  range.id = ++last_id;
  return by_start[range.start] = std::move(range);
}

std::uint64_t Ranges::take_addresses(std::uint64_t size) {
  size = whole_pages(size);
  if (const auto found = free_addresses.find(size); found != free_addresses.end()) {
    const std::uint64_t address = found->second.back();
    found->second.pop_back();
    if (found->second.empty()) free_addresses.erase(found);
    return address;
  }
  constexpr std::size_t kAlignment = kGranularity;
  void* at = mmap(nullptr, size + kAlignment, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  const auto address = reinterpret_cast<std::uint64_t>(at);
  return (address + kAlignment - 1) / kAlignment * kAlignment;
}

void Ranges::give_addresses_back(std::uint64_t address, std::uint64_t size) {
  free_addresses[whole_pages(size)].push_back(address);
}

std::optional<Range> find(std::uint64_t address) {
  const std::lock_guard hold{ranges().lock};
  const Range* range = ranges().of(address);
  return range == nullptr ? std::nullopt : std::optional{*range};
}

void check_registered() {
  const std::lock_guard hold{ranges().lock};
  for (const auto& [start, range] : ranges().by_start) {
    if (range.kind != Kind::registered) continue;
    // Without other flags it only looks whether all pages are mapped.
    const std::uint64_t first = start / kPage * kPage;
    if (msync(reinterpret_cast<void*>(first), whole_pages(range.end() - first), MS_ASYNC) != 0)
      die("memory was unmapped while it is registered", start);
  }
}

void free_memory_of(CUcontext context) {
  std::vector<Range> freed;  // its memory goes after the lock
  const std::lock_guard hold{ranges().lock};
  auto& all = ranges().by_start;
  for (auto at = all.begin(); at != all.end();) {
    if (at->second.context != context) {
      ++at;
      continue;
    }
    const Range& range = at->second;
    if (range.kind == Kind::device) ranges().give_addresses_back(range.start, range.size);
    if (range.kind == Kind::pinned || range.kind == Kind::managed)
      munmap(reinterpret_cast<void*>(range.start), whole_pages(range.size));
    freed.push_back(std::move(at->second));
    at = all.erase(at);
  }
}

std::optional<Extent> device_extent(std::uint64_t address, std::size_t size) {
  const std::lock_guard hold{ranges().lock};
  const Range* range = ranges().of(address);
  if (range == nullptr || size > range->end() - address) return std::nullopt;
  if (on_host(range->kind)) return Extent{{reinterpret_cast<std::byte*>(address), size, nullptr}};
  Extent extent;
  while (size > 0) {
    const auto* mapping = range->mapping_of(address);
    if (mapping == nullptr || !mapping->second.access) return std::nullopt;
    const Mapping& m = mapping->second;
    const std::uint64_t at = address - mapping->first;
    const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(size, m.size - at));
    extent.push_back({m.memory->bytes() + m.offset + at, here, m.memory});
    address += here;
    size -= here;
  }
  return extent;
}

std::optional<Extent> host_extent(const void* address, std::size_t size) {
  const auto range = find(reinterpret_cast<std::uint64_t>(address));
  if (range && !on_host(range->kind)) return std::nullopt;
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(address));
  return Extent{{bytes, size, nullptr}};
}

namespace {

/// The byte at this place, and how many follow it in the same piece.
std::pair<std::byte*, std::size_t> place(const Extent& extent, std::size_t at) {
  for (const Piece& piece : extent) {
    if (at < piece.size) return {piece.at + at, piece.size - at};
    at -= piece.size;
  }
  return {nullptr, 0};
}

}  // namespace

void move_bytes(const Extent& to, std::size_t to_at, const Extent& from, std::size_t from_at,
                std::size_t size) {
  while (size > 0) {
    const auto [target, room] = place(to, to_at);
    const auto [source, there] = place(from, from_at);
    const std::size_t here = std::min({size, room, there});
    // A GPU promises no order inside a copy: the end comes first.
    std::memmove(target + here / 2, source + here / 2, here - here / 2);
    std::memmove(target, source, here / 2);
    to_at += here;
    from_at += here;
    size -= here;
  }
}

}  // namespace stand_in

void* stand_in_bytes(CUdeviceptr address) {
  const auto extent = stand_in::device_extent(address, 1);
  return extent ? extent->front().at : nullptr;
}
