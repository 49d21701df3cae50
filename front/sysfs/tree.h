#pragma once

// The paths that a kernel driver would have given our devices:
//
//   /sys/class/infiniband/NAME            a link to /sys/devices/virtual/infiniband/NAME
//   /sys/class/infiniband_verbs/uverbsN   what libibverbs looks for first
//   /dev/infiniband/{uverbsN,rdma_cm}     character devices
//   /sys/class/misc/rdma_cm               the connection manager's
//   /sys/module/verbena                   for `verbena stat` and `verbena devices`, as JSON: the
//                                         processes that have a NIC, the interfaces that have no
//                                         device, and the addresses whose UDP port is taken
//   /sys/module/nvidia_peermem            and its relatives: see peer_memory.h
//
// Devices of the kernel's beside ours keep theirs: folders show both.

#include <string>
#include <string_view>
#include <vector>

namespace verbena::front::sysfs {

struct Node {
  enum class Kind {
    kernels,  // not ours: `path` is what to ask the kernel for, perhaps another than asked
    missing,  // below a device of ours, where nothing is
    folder,
    file,
    link,
    character_device,
  };
  enum class Device { uverbs, rdma_cm };

  Kind kind = Kind::kernels;
  std::string path{};                  // without links, dots and doubled slashes
  std::string text{};                  // a file's contents with its newline; where a link leads
  bool readable = true;                // a file: else read() says EINVAL
  std::vector<std::string> entries{};  // a folder's, ours only
  Device device = Device::uverbs;
  unsigned number = 0;  // of a uverbs device
};

enum class Follow : bool { no, yes };

/// Nothing is looked up unless this is true: every open() of the program asks.
[[nodiscard]] bool may_be_ours(const char* path);

/// `follow`: a link at the end is followed, as stat() does and lstat() doesn't.
[[nodiscard]] Node find(std::string_view path, Follow follow);

}  // namespace verbena::front::sysfs
