#include "host/progress/spare_core.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "system/kernel_calls.h"

namespace verbena::host {

namespace {

std::size_t usable_cores() {
  cpu_set_t usable;
  // Fails on a machine of more than 1,024 cores, which has one to spare.
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return CPU_SETSIZE;
  return static_cast<std::size_t>(CPU_COUNT(&usable));
}

}  // namespace

SpareCore::SpareCore() : SpareCore{usable_cores()} {}

SpareCore::SpareCore(std::size_t cores)
    : load_{::open("/proc/loadavg", O_RDONLY | O_CLOEXEC)}, cores_{cores} {}

bool SpareCore::exists(Instant now, std::size_t others) {
  if (now - asked_at_ > kGoodFor) {
    running_ = ask();
    asked_at_ = now;
  }
  return enough(cores_, running_, others);
}

std::optional<std::size_t> SpareCore::ask() const {
  std::array<char, 128> text;
  const ssize_t size = kernel::pread(load_.get(), text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  return runnable({text.data(), static_cast<std::size_t>(size)});
}

std::optional<std::size_t> SpareCore::runnable(std::string_view loadavg) {
  const std::size_t slash = loadavg.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::size_t before = loadavg.rfind(' ', slash);
  const std::size_t first = before == std::string_view::npos ? 0 : before + 1;
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(loadavg.data() + first, loadavg.data() + slash, count);
  if (error != std::errc{} || end != loadavg.data() + slash) return std::nullopt;
  return count;
}

}  // namespace verbena::host
