#pragma once

// What the kernel's RDMA core says over netlink (NETLINK_RDMA).

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>

namespace verbena::host {

/// The number of /dev/infiniband/rdma_cm: the kernel's if it has that device, for librdmacm asks
/// for it in the same way, and takes no other. Async-signal-safe.
[[nodiscard]] dev_t rdma_cm_number();

/// From the kernel's answer to RDMA_NLDEV_CMD_GET_CHARDEV. nullopt: an error, or something else.
[[nodiscard]] std::optional<dev_t> device_number(std::span<const std::uint8_t> answer);

}  // namespace verbena::host
