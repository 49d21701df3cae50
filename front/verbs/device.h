#pragma once

// Our devices as programs see them. An ibv_device lives as long as the process, and the same
// name has the same address each time: librdmacm compares lists by address.

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/devices/device.h"

namespace verbena::front {

/// Provider libraries look at what stands behind every ibv_device to see whether it is one of
/// theirs: first their table of functions, here one that is nobody's.
struct ProviderDevice {
  ibv_device device{};
  const void* ops = nullptr;
  std::array<std::byte, 256> room{};
};

struct Device : ProviderDevice {
  explicit Device(host::Device now);

  host::Device info;  // as at the last listing; under lock_lists()
};

/// nullptr: a device of the system's libibverbs.
[[nodiscard]] Device* find_device(const ibv_device* device);

/// By its ibdev_path. nullptr: not a device of ours.
[[nodiscard]] Device* find_device_by_path(std::string_view ibdev_path);

/// As it is now, in the order of the list.
[[nodiscard]] std::vector<ibv_device*> list_our_devices();

/// As they are now, in no order to speak of. Cheap once a device was opened.
[[nodiscard]] std::vector<host::Device> devices_now();
/// nullopt: its interface is gone.
[[nodiscard]] std::optional<host::Device> device_now(const std::string& name);

/// N of its /dev/infiniband/uverbsN. The system counts its own from 0: ours are far above.
[[nodiscard]] unsigned uverbs_number(const host::Device& device);

}  // namespace verbena::front
