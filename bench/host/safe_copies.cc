// What a copy into or out of a program's memory costs, what it does when that memory is gone,
// and whether the last byte really arrives last.
//
// Run:  build/bench/safe_copies
//
// Behind docs/decisions/004-safe-copies.md. Prints a table: nanoseconds per copy for each way
// and size; then for each way of writing, in how many of the copies a watcher on another core
// saw the last byte before an earlier one.

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "memory/fault_handler.h"
#include "memory/guarded_copy.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFrames = 1u << 20;
constexpr std::size_t kProgram = 8u << 20;

void require(bool ok, const char* what) {
  if (ok) return;
  fmt::print(stderr, "{}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

/// Frame memory in a memfd, program memory in an ordinary mapping.
struct Memory {
  Memory() : fd{memfd_create("frames", MFD_CLOEXEC)} {
    require(fd >= 0 && ftruncate(fd, kFrames) == 0, "memfd");
    frames = static_cast<char*>(mmap(nullptr, kFrames, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    program = static_cast<char*>(
        mmap(nullptr, kProgram, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    require(frames != MAP_FAILED && program != MAP_FAILED, "mmap");
    std::memset(frames, 1, kFrames);
    std::memset(program, 2, kProgram);
  }
  int fd;
  char* frames;
  char* program;
};

struct Way {
  std::string_view name;
  std::function<bool(char* program, std::size_t n)> copy;
};

double nanoseconds(const Way& way, char* program, std::size_t n) {
  double best = 1e18;
  for (int round = 0; round < 5; ++round) {
    const int count = n > 4096 ? 5'000 : 50'000;
    const auto start = Clock::now();
    std::size_t at = 0;
    for (int i = 0; i < count; ++i) {
      require(way.copy(program + at, n), "copy");
      at = (at + n) % (kProgram / 2);
    }
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    best = std::min(best, took.count() / count);
  }
  return best;
}

/// Copies of 0s and 1s alternate; the watcher looks at the last byte, then at the others.
double last_byte_early(const Memory& m, const Way& way, std::size_t n) {
  std::atomic<bool> stop{false};
  std::uint64_t seen = 0;
  std::uint64_t early = 0;
  volatile char* const target = m.program;
  std::atomic<int> round{0};
  std::atomic<int> checked{0};
  std::thread watcher{[&] {
    for (int want = 1; !stop; ++want) {
      while (round.load(std::memory_order_acquire) < want && !stop) {
      }
      const char value = static_cast<char>(want & 1);
      while (target[n - 1] != value && !stop) {
      }
      if (stop) break;
      ++seen;
      for (std::size_t i = 0; i < n; ++i) {
        if (target[i] == value) continue;
        ++early;
        break;
      }
      checked.store(want, std::memory_order_release);
    }
  }};
  std::memset(m.program, 0, n);
  for (int i = 1; i <= 20'000; ++i) {
    std::memset(m.frames, i & 1, n);
    round.store(i, std::memory_order_release);
    require(way.copy(m.program, n), "copy");
    while (checked.load(std::memory_order_acquire) < i) {
    }
  }
  stop = true;
  watcher.join();
  return seen == 0 ? 0.0 : 100.0 * static_cast<double>(early) / static_cast<double>(seen);
}

}  // namespace

int main() {
  const Memory m;
  const pid_t self = getpid();
  verbena::memory::catch_faults();
  const auto whole = [](ssize_t got, std::size_t n) { return got == static_cast<ssize_t>(n); };
  const std::vector<Way> writes{
      {"memcpy",
       [&](char* p, std::size_t n) {
         std::memcpy(p, m.frames, n);
         return true;
       }},
      {"process_vm_writev",
       [&](char* p, std::size_t n) {
         const iovec from{m.frames, n};
         const iovec to{p, n};
         return whole(process_vm_writev(self, &from, 1, &to, 1, 0), n);
       }},
      {"pread from memfd", [&](char* p, std::size_t n) { return whole(pread(m.fd, p, n, 0), n); }},
      {"the same, last apart",
       [&](char* p, std::size_t n) {
         const iovec to[2] = {{p, n - 1}, {p + n - 1, 1}};
         return whole(preadv(m.fd, to, 2, 0), n);
       }},
      {"guarded copy",
       [&](char* p, std::size_t n) { return verbena::memory::guarded_scatter(p, m.frames, n); }},
  };
  const std::vector<Way> reads{
      {"process_vm_readv",
       [&](char* p, std::size_t n) {
         const iovec to{m.frames, n};
         const iovec from{p, n};
         return whole(process_vm_readv(self, &to, 1, &from, 1, 0), n);
       }},
      {"pwrite to memfd", [&](char* p, std::size_t n) { return whole(pwrite(m.fd, p, n, 0), n); }},
      {"guarded copy",
       [&](char* p, std::size_t n) { return verbena::memory::guarded_gather(m.frames, p, n); }},
  };

  fmt::print("{:<24}{:>10}{:>10}{:>10}{:>10}   ns per copy of so many bytes\n", "", 8, 64, 1024,
             4096);
  for (const auto* ways : {&writes, &reads}) {
    for (const Way& way : *ways) {
      fmt::print("{:<24}", way.name);
      for (const std::size_t n : {8u, 64u, 1024u, 4096u}) {
        fmt::print("{:>10.0f}", nanoseconds(way, m.program, n));
      }
      fmt::print("\n");
    }
  }

  fmt::print("\n{:<24}{:>10}{:>10}{:>10}   % of copies whose last byte was seen early\n", "", 64,
             1024, 4096);
  for (const Way& way : writes) {
    fmt::print("{:<24}", way.name);
    for (const std::size_t n : {64u, 1024u, 4096u}) {
      fmt::print("{:>10.2f}", last_byte_early(m, way, n));
    }
    fmt::print("\n");
  }

  munmap(m.program, 4096);
  fmt::print("\nprogram memory unmapped:\n");
  for (const Way* way : {&writes[1], &writes[2], &writes[3], &reads[0], &reads[1]}) {
    const bool ok = way->copy(m.program, 64);
    fmt::print("{:<24}{}\n", way->name, ok ? "copied?!" : std::strerror(errno));
  }
  for (const Way* way : {&writes[4], &reads[2], &reads[3]}) {
    fmt::print("{:<24}{}\n", way->name, way->copy(m.program, 64) ? "copied?!" : "refused");
  }
  fmt::print("{:<24}SIGSEGV (not tried)\n", "memcpy");
}
