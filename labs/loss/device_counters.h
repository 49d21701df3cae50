#pragma once

// What the device of a child process counted: as VERBENA_STATS says it writes that down, as JSON,
// when the process ends.

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "rdma++/error.h"

namespace loss {

/// Made before the fork; ask after the child's end.
class DeviceCounters {
 public:
  DeviceCounters() : fd_{memfd_create("counters", 0)} {
    if (fd_ < 0) throw rdma::Error{"memfd_create", "counters", errno};
  }
  DeviceCounters(const DeviceCounters&) = delete;
  DeviceCounters& operator=(const DeviceCounters&) = delete;
  ~DeviceCounters() { close(fd_); }

  /// In the child, before the device is opened. Who said --stats wants to read them himself.
  void record() const { setenv("VERBENA_STATS", fmt::format("/proc/self/fd/{}", fd_).c_str(), 0); }

  /// The port's; nullopt: not written down.
  [[nodiscard]] std::optional<std::uint64_t> value(std::string_view name) const {
    const std::string all = text();
    const std::string key = fmt::format("\"{}\":", name);
    const auto found = all.find(key);
    if (found == std::string::npos) return std::nullopt;
    std::uint64_t number = 0;
    const char* const digits = all.data() + found + key.size();
    if (std::from_chars(digits, all.data() + all.size(), number).ec != std::errc{}) {
      return std::nullopt;
    }
    return number;
  }

 private:
  [[nodiscard]] std::string text() const {
    std::string all;
    std::array<char, 4096> room{};
    while (true) {
      const ssize_t n = pread(fd_, room.data(), room.size(), static_cast<off_t>(all.size()));
      if (n <= 0) return all;
      all.append(room.data(), static_cast<std::size_t>(n));
    }
  }

  int fd_;
};

}  // namespace loss
