#pragma once

// What our files look like to stat().

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "front/sysfs/tree.h"
#include "host/devices/rdma_netlink.h"

namespace verbena::front {

struct Appearance {
  mode_t mode = 0;
  unsigned major_number = 0;
  unsigned minor_number = 0;
  std::size_t size = 0;
};

/// What the kernel's looks like: a misc device that everybody may use.
[[nodiscard]] inline Appearance cm_device() {
  const dev_t number = host::rdma_cm_number();
  return {S_IFCHR | 0666, major(number), minor(number), 0};
}

/// Of a node that is ours and there.
[[nodiscard]] inline Appearance appearance_of(const sysfs::Node& node) {
  using Kind = sysfs::Node::Kind;
  constexpr unsigned kInfinibandMajor = 231;
  switch (node.kind) {
    case Kind::folder:
      return {.mode = S_IFDIR | 0755};
    case Kind::link:
      return {.mode = S_IFLNK | 0777, .size = node.text.size()};
    case Kind::character_device:
      return node.device == sysfs::Node::Device::rdma_cm
                 ? cm_device()
                 : Appearance{S_IFCHR | 0666, kInfinibandMajor, node.number, 0};
    case Kind::file:
    case Kind::kernels:
    case Kind::missing:
      break;
  }
  return {.mode = S_IFREG | 0444, .size = 4096};  // as sysfs says of all its files
}

template <typename Stat>
void look_like(Stat& s, const Appearance& a) {
  s.st_mode = a.mode;
  s.st_rdev = makedev(a.major_number, a.minor_number);
  s.st_size = static_cast<off_t>(a.size);
}

}  // namespace verbena::front
