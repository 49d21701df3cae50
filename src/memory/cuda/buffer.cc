#include "memory/cuda/buffer.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "memory/last_unit.h"

namespace verbena::memory::cuda {

Status Buffer::prepare(const Segment& range, bool) {
  const auto refused = [&](std::string_view why) {
    return Error{EFAULT, fmt::format("{} bytes at {:#x} of GPU memory: {}", range.length,
                                     range.address, why)};
  };
  if (!is_alive(range.address)) return refused("the allocation was freed");
  DevicePointer base = 0;
  std::size_t size = 0;
  if (const Result r = driver_.address_range(&base, &size, range.address); r != kSuccess) {
    return refused("the driver knows no extent of it (" + driver_.name_of(r) +
                   "): memory that was mapped needs cuMemSetAccess(), too");
  }
  const std::uint64_t left = size - (range.address - base);
  if (range.length > left) {
    return refused(
        fmt::format("the allocation ends after {}; register each allocation by itself", left));
  }
  return Ok{};
}

bool Buffer::started(bool well) {
  set_pending(true);
  return well;
}

bool Buffer::gather(std::span<const Segment> from, std::span<std::uint8_t> into) {
  for (const Segment& s : from) {
    if (!is_alive(s.address)) return false;
    if (!started(lane_.copy_out(into.first(s.length), s.address))) return false;
    into = into.subspan(s.length);
  }
  return true;
}

bool Buffer::gather_parts(std::uint64_t address, const FrameParts& into) {
  return is_alive(address) && started(lane_.copy_out(into, address));
}

bool Buffer::extends(const Run& run, std::span<const std::uint8_t> from, DevicePointer to) {
  if (from.size() != run.size || to != run.to + run.count * run.size) return false;
  if (run.count > 1) return from.data() == run.first + run.count * run.stride;
  return from.data() >= run.first + run.size;
}

bool Buffer::add(std::span<const std::uint8_t> from, DevicePointer to) {
  if (!is_alive(to)) return false;
  set_pending(true);
  if (run_ && extends(*run_, from, to)) {
    if (run_->count == 1) run_->stride = static_cast<std::size_t>(from.data() - run_->first);
    ++run_->count;
    return true;
  }
  const bool well = !run_ || start(*run_);
  run_ = Run{from.data(), to, from.size(), from.size(), 1};
  return well;
}

bool Buffer::start(const Run& run) {
  if (run.count == 1) return lane_.copy_in(run.to, {run.first, run.size});
  return lane_.copy_in(run.to, run.first, run.size, run.stride, run.count);
}

bool Buffer::start_most() {
  if (!run_ || run_->count == 1) return true;
  Run most = *run_;
  --most.count;
  run_->first += most.count * most.stride;
  run_->to += most.count * most.size;
  run_->count = 1;
  return start(most);
}

bool Buffer::scatter(std::span<const std::uint8_t> from, std::span<const Segment> into) {
  for (const Segment& s : into) {
    if (!add(from.first(s.length), s.address)) return false;
    from = from.subspan(s.length);
  }
  return start_most();
}

bool Buffer::scatter_all(std::span<const Copy> list) {
  for (const Copy& c : list) {
    if (!add(c.from, c.to)) return false;
  }
  return start_most();
}

bool Buffer::put(DevicePointer to, std::span<const std::uint8_t> from) {
  const std::size_t last = last_unit(to, from.size());
  const std::size_t most = from.size() - last;
  return (most == 0 || lane_.copy_in(to, from.first(most))) &&
         lane_.put_last(to + most, from.subspan(most));
}

bool Buffer::finish() {
  set_pending(false);
  const std::optional<Run> last = std::exchange(run_, std::nullopt);
  const bool well = !last || put(last->to, {last->first, last->size});
  return lane_.synchronize() && well;
}

// ---- words

std::optional<std::uint64_t> Buffer::load(std::uint64_t address) {
  std::array<std::uint8_t, sizeof(std::uint64_t)> bytes;
  if (!is_alive(address)) return std::nullopt;
  const bool well = lane_.copy_out(bytes, address);
  if (!lane_.synchronize() || !well) return std::nullopt;
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

bool Buffer::store(std::uint64_t address, std::uint64_t value) {
  std::array<std::uint8_t, sizeof value> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  if (!is_alive(address)) return false;
  const bool well = lane_.put_last(address, bytes);
  return lane_.synchronize() && well;
}

std::optional<std::uint64_t> Buffer::compare_swap(std::uint64_t address, std::uint64_t compare,
                                                  std::uint64_t swap) {
  const auto held = load(address);
  if (held == compare && !store(address, swap)) return std::nullopt;
  return held;
}

std::optional<std::uint64_t> Buffer::fetch_add(std::uint64_t address, std::uint64_t add) {
  const auto held = load(address);
  if (held && !store(address, *held + add)) return std::nullopt;
  return held;
}

}  // namespace verbena::memory::cuda
