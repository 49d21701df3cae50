#include "front/ucma/kernel_side.h"

#include <fcntl.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "host/devices/kernel_view.h"
#include "system/kernel_calls.h"

namespace verbena::front::ucma {

Result<std::unique_ptr<KernelSide>> KernelSide::open(host::DescriptorWatch& watch,
                                                     std::uint64_t key) {
  const host::KernelView without_ours;
  const int fd = ::open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return Error{errno,
                 std::string{"the kernel's /dev/infiniband/rdma_cm: "} + std::strerror(errno)};
  }
  std::unique_ptr<KernelSide> side{new KernelSide{fd, watch}};
  if (auto added = watch.add(fd, key); !added) return added.error();
  return side;
}

KernelSide::~KernelSide() {
  watch_.remove(fd_);
  kernel::close(fd_);
}

Status KernelSide::write(std::uint32_t number, std::span<const std::uint8_t> in,
                         std::size_t room) const {
  const rdma_ucm_cmd_hdr header{number, static_cast<std::uint16_t>(in.size()),
                                static_cast<std::uint16_t>(room)};
  std::vector<std::uint8_t> bytes(sizeof header + in.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, in.data(), in.size());
  if (kernel::write(fd_, bytes.data(), bytes.size()) < 0) return Error{errno, ""};
  return Ok{};
}

std::optional<rdma_ucm_event_resp> KernelSide::next_event() const {
  rdma_ucm_event_resp event{};
  const rdma_ucm_get_event in{.response = reinterpret_cast<std::uint64_t>(&event)};
  if (!command(RDMA_USER_CM_CMD_GET_EVENT, in, sizeof event)) return std::nullopt;
  return event;
}

std::optional<std::size_t> place_of_id(std::uint32_t number) {
  switch (number) {
    case RDMA_USER_CM_CMD_BIND_IP:
      return offsetof(rdma_ucm_bind_ip, id);
    case RDMA_USER_CM_CMD_RESOLVE_IP:
      return offsetof(rdma_ucm_resolve_ip, id);
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
      return offsetof(rdma_ucm_resolve_route, id);
    case RDMA_USER_CM_CMD_QUERY_ROUTE:
    case RDMA_USER_CM_CMD_QUERY:
      return offsetof(rdma_ucm_query, id);
    case RDMA_USER_CM_CMD_CONNECT:
      return offsetof(rdma_ucm_connect, id);
    case RDMA_USER_CM_CMD_LISTEN:
      return offsetof(rdma_ucm_listen, id);
    case RDMA_USER_CM_CMD_ACCEPT:
      return offsetof(rdma_ucm_accept, id);
    case RDMA_USER_CM_CMD_REJECT:
      return offsetof(rdma_ucm_reject, id);
    case RDMA_USER_CM_CMD_DISCONNECT:
      return offsetof(rdma_ucm_disconnect, id);
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
      return offsetof(rdma_ucm_init_qp_attr, id);
    case RDMA_USER_CM_CMD_SET_OPTION:
      return offsetof(rdma_ucm_set_option, id);
    case RDMA_USER_CM_CMD_NOTIFY:
      return offsetof(rdma_ucm_notify, id);
    case RDMA_USER_CM_CMD_BIND:
      return offsetof(rdma_ucm_bind, id);
    case RDMA_USER_CM_CMD_RESOLVE_ADDR:
      return offsetof(rdma_ucm_resolve_addr, id);
    default:
      return std::nullopt;
  }
}

}  // namespace verbena::front::ucma
