// ibv_get_device_list and the properties that need no open device.

#include <endian.h>

#include <algorithm>
#include <cstdlib>

#include "front/preload/real.h"
#include "front/verbs/device.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/nic.h"
#include "host/config.h"

namespace verbena::front {

namespace {

void append_real_devices(std::vector<ibv_device*>& all) {
  int count = 0;
  ibv_device** const list =
      real::call<"ibv_get_device_list", "IBVERBS_1.1">(ibv_get_device_list, &count);
  // NULL: the kernel has no RDMA at all, which is no error of ours.
  if (list == nullptr) return;
  all.insert(all.end(), list, list + count);
  // Only the array: the references that it holds pass to our list. See ibv_free_device_list.
  std::free(list);
}

}  // namespace

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_device** ibv_get_device_list(int* num_devices) {
  if (num_devices != nullptr) *num_devices = 0;
  return guarded("ibv_get_device_list", [&]() -> Result<ibv_device**> {
    std::vector<ibv_device*> all = list_our_devices();
    if (!host::config().only) append_real_devices(all);

    // Some programs free() it themselves: one plain block.
    auto** const list = static_cast<ibv_device**>(std::calloc(all.size() + 1, sizeof(ibv_device*)));
    if (list == nullptr) return Error{ENOMEM, "no memory for the list"};
    std::copy(all.begin(), all.end(), list);
    if (num_devices != nullptr) *num_devices = static_cast<int>(all.size());
    return list;
  });
}

VERBENA_EXPORT void ibv_free_device_list(ibv_device** list) {
  if (list == nullptr) return;
  // The real one drops a reference of each device and frees the array: leave it its own.
  ibv_device** end = list;
  for (ibv_device** d = list; *d != nullptr; ++d) {
    if (find_device(*d) == nullptr) *end++ = *d;
  }
  *end = nullptr;
  if (end == list) {
    std::free(list);
    return;
  }
  real::call<"ibv_free_device_list", "IBVERBS_1.1">(ibv_free_device_list, list);
}

VERBENA_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

VERBENA_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  if (const Device* ours = find_device(device)) {
    const auto lock = lock_lists();
    return htobe64(ours->info.guid);
  }
  return real::call<"ibv_get_device_guid", "IBVERBS_1.1">(ibv_get_device_guid, device);
}

/// The kernel knows ours by no index. Whoever has one asks the kernel for more (UCX does, by
/// netlink); -1 is how the verbs say that there is none.
VERBENA_EXPORT int ibv_get_device_index(ibv_device* device) {
  if (find_device(device) != nullptr) return -1;
  return real::call<"ibv_get_device_index", "IBVERBS_1.9">(ibv_get_device_index, device);
}
