// ibv_read_sysfs_file: programs read a device's properties through it by folder and name.

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <optional>
#include <string>

#include "front/preload/real.h"
#include "front/sysfs/attribute.h"
#include "front/verbs/device.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"

// Of the private headers, as ibv_read_sysfs_file@IBVERBS_1.0 has always been.
VERBENA_EXPORT int ibv_read_sysfs_file(const char* dir, const char* file, char* buffer,
                                       std::size_t size);

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT int ibv_read_sysfs_file(const char* dir, const char* file, char* buffer,
                                       std::size_t size) {
  if (size > 1 && std::string_view{file} == "class/misc/rdma_cm/abi_version") {
    // librdmacm asks before it opens the character device.
    std::copy_n(std::to_string(RDMA_USER_CM_ABI_VERSION).c_str(), 2, buffer);
    return 1;
  }
  const Device* const ours = find_device_by_path(dir);
  if (ours == nullptr) {
    return real::call<"ibv_read_sysfs_file", "IBVERBS_1.0">(ibv_read_sysfs_file, dir, file, buffer,
                                                            size);
  }
  std::optional<sysfs::Attribute> value;
  try {
    if (const auto now = device_now(ours->device.name)) value = sysfs::read_attribute(*now, file);
  } catch (...) {
    report_exception("ibv_read_sysfs_file");
    return -1;
  }
  if (!value || !value->readable) {
    errno = value ? EINVAL : ENOENT;
    return -1;
  }
  if (size == 0) return 0;
  const std::size_t n = std::min(value->text.size(), size - 1);
  std::copy_n(value->text.data(), n, buffer);
  buffer[n] = '\0';
  return static_cast<int>(n);
}
