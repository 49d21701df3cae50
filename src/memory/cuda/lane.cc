#include "memory/cuda/lane.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "system/frame_mappings.h"

namespace verbena::memory::cuda {
namespace {

bool pin(const FrameMapping& mapping) {
  const unsigned flags = kRegisterPortable | (mapping.writable ? 0 : kRegisterReadOnly);
  return Driver::loaded()->register_host(mapping.base, mapping.bytes, flags) == kSuccess;
}

void unpin(const FrameMapping& mapping) {
  const Driver& driver = *Driver::loaded();
  // This thread has no context, and the one that pinned it may be gone: then it isn't pinned any
  // more, and the driver knows nothing of it. Nor does it at the end of the process.
  const Pointer pinned = look_up(driver, reinterpret_cast<std::uintptr_t>(mapping.base));
  if (pinned.context == nullptr) return;
  const Current current{driver, pinned.context};
  if (current) static_cast<void>(driver.unregister_host(mapping.base));
}

constexpr FramePinner kPinner{pin, unpin};

}  // namespace

verbena::Result<Lane> Lane::open(const Driver& driver, Context context) {
  Lane lane{driver, context};
  const Current current{driver, context};
  const auto refused = [&](const char* call, Result why) {
    return Error{ENODEV, std::string{call} + ": " + driver.name_of(why)};
  };
  if (!current) return Error{ENODEV, "cuCtxPushCurrent: the driver refuses"};
  if (const Result r = driver.create_stream(&lane.stream_, kNonBlocking); r != kSuccess) {
    return refused("cuStreamCreate", r);
  }
  if (const Result r = driver.allocate(&lane.mark_, sizeof lane.mark_); r != kSuccess) {
    return refused("cuMemAlloc", r);
  }
  lane.mark_id_ = look_up(driver, lane.mark_).buffer;
  if (lane.mark_id_ == 0) return Error{ENODEV, "the driver has no numbers for allocations"};
  Device device = 0;
  int can_write_64 = 0;
  if (driver.write_64 != nullptr && driver.context_device(&device) == kSuccess) {
    driver.device_attribute(&can_write_64, kCanUse64BitStreamMemoryOperations, device);
  }
  lane.can_write_64_ = can_write_64 != 0;
  return lane;
}

template <typename Call>
bool Lane::in_context(const Call& call) {
  if (!is_alive()) return false;
  const Current current{*driver_, context_};
  return current && call() == kSuccess;
}

bool Lane::copy_out(std::span<std::uint8_t> to, DevicePointer from) {
  return in_context([&] {
    pin_frame_mapping_of(to.data(), kPinner);
    return driver_->copy_out(to.data(), from, to.size(), stream_);
  });
}

bool Lane::copy_in(DevicePointer to, std::span<const std::uint8_t> from) {
  return in_context([&] {
    pin_frame_mapping_of(from.data(), kPinner);
    return driver_->copy_in(to, from.data(), from.size(), stream_);
  });
}

bool Lane::copy_out(const FrameParts& to, DevicePointer from) {
  const std::size_t size = to.first.size();
  const Copy2D copy{.source_type = MemoryType::device,
                    .source_device = from,
                    .source_pitch = size,
                    .target_type = MemoryType::host,
                    .target_host = to.first.data(),
                    .target_pitch = to.stride,
                    .width = size,
                    .height = to.count};
  return in_context([&] {
    pin_frame_mapping_of(to.first.data(), kPinner);
    return driver_->copy_2d(&copy, stream_);
  });
}

bool Lane::copy_in(DevicePointer to, const std::uint8_t* first, std::size_t size,
                   std::size_t stride, std::size_t count) {
  const Copy2D copy{.source_type = MemoryType::host,
                    .source_host = first,
                    .source_pitch = stride,
                    .target_type = MemoryType::device,
                    .target_device = to,
                    .target_pitch = size,
                    .width = size,
                    .height = count};
  return in_context([&] {
    pin_frame_mapping_of(first, kPinner);
    return driver_->copy_2d(&copy, stream_);
  });
}

bool Lane::put_last(DevicePointer to, std::span<const std::uint8_t> word) {
  if (word.size() == 8 && can_write_64_) {
    std::uint64_t value = 0;
    std::memcpy(&value, word.data(), sizeof value);
    return in_context([&] { return driver_->write_64(stream_, to, value, 0); });
  }
  if (word.size() == 4 && driver_->write_32 != nullptr) {
    std::uint32_t value = 0;
    std::memcpy(&value, word.data(), sizeof value);
    return in_context([&] { return driver_->write_32(stream_, to, value, 0); });
  }
  return copy_in(to, word);
}

bool Lane::synchronize() {
  return in_context([&] { return driver_->synchronize(stream_); });
}

}  // namespace verbena::memory::cuda
