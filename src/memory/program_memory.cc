#include "memory/program_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <memory>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace verbena::memory {

namespace {

/// Walks /proc/self/maps: for kernels before 5.14 and for mappings that can't be populated.
bool mapped(Segment range, bool write) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps{std::fopen("/proc/self/maps", "re"),
                                                             &std::fclose};
  if (!maps) return true;  // no way to tell; copies are safe all the same
  std::uint64_t next = range.address;
  const std::uint64_t end = range.address + range.length;
  char line[512];
  while (next < end && std::fgets(line, sizeof line, maps.get()) != nullptr) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    char flags[5] = {};
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, flags) != 3) continue;
    if (to <= next) continue;
    if (from > next || flags[0] != 'r' || (write && flags[1] != 'w')) return false;
    next = to;
  }
  return next >= end;
}

}  // namespace

Status prepare_program_memory(Segment range, bool write) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t start = range.address & ~(page - 1);
  const std::uint64_t bytes = range.address + range.length - start;
  if (madvise(reinterpret_cast<void*>(start), bytes,
              write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0) {
    return Ok{};
  }
  const int why = errno;
  if (why == EINVAL && mapped(range, write)) return Ok{};
  return Error{EFAULT, fmt::format("{} bytes at {:#x} are not all mapped {}", range.length,
                                   range.address, write ? "writable" : "readable")};
}

}  // namespace verbena::memory
