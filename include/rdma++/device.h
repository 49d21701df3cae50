// The devices of this machine, ours and hardware.
#pragma once

#include <endian.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rdma++/error.h"

namespace rdma {

/// Names of Verbena's devices begin so.
[[nodiscard]] inline bool is_verbena(std::string_view name) { return name.starts_with("vb_"); }

/// One device, not yet opened. A copyable value; see device_choice.h for how to choose one.
class Device {
 public:
  /// Every device; empty when the machine has none.
  [[nodiscard]] static std::vector<Device> all() {
    int count = 0;
    const std::shared_ptr<ibv_device*> list{ibv_get_device_list(&count), [](ibv_device** gone) {
                                              if (gone != nullptr) ibv_free_device_list(gone);
                                            }};
    if (list == nullptr) {
      // ENOSYS: no RDMA in this kernel, which is a machine without devices.
      if (errno == ENOSYS) return {};
      throw Error{"ibv_get_device_list", "", errno};
    }
    std::vector<Device> result;
    for (int i = 0; i < count; ++i) result.push_back(Device{list, list.get()[i]});
    return result;
  }

  [[nodiscard]] static Device by_name(std::string_view name) {
    std::string seen;
    for (const Device& device : all()) {
      if (device.name() == name) return device;
      seen.append(seen.empty() ? "" : ", ").append(device.name());
    }
    throw Error{"ibv_get_device_list", concat("device \"", name, '"'), ENODEV,
                seen.empty() ? "this machine has no device; `verbena run` gives it some"
                             : concat("there is ", seen)};
  }

  [[nodiscard]] std::string name() const { return ibv_get_device_name(raw_); }
  [[nodiscard]] bool is_verbena() const { return rdma::is_verbena(name()); }
  /// In host order.
  [[nodiscard]] std::uint64_t guid() const { return be64toh(ibv_get_device_guid(raw_)); }
  [[nodiscard]] ibv_device* raw() const noexcept { return raw_; }

 private:
  Device(std::shared_ptr<ibv_device*> list, ibv_device* raw) : list_{std::move(list)}, raw_{raw} {}

  std::shared_ptr<ibv_device*> list_;  // frees the device when the last of them is gone
  ibv_device* raw_;
};

}  // namespace rdma
