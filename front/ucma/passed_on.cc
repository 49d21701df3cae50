#include "front/ucma/passed_on.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "front/ucma/addresses.h"
#include "host/config.h"
#include "host/devices/roce_interfaces.h"
#include "host/log.h"

namespace verbena::front::ucma {

namespace {

/// nullptr: the command has no id, or none of this channel.
Id* id_of(Ucma& ucma, std::uint32_t number, const Command& command) {
  const auto place = place_of_id(number);
  std::uint32_t handle = 0;
  if (!place || command.in.size() < *place + sizeof handle) return nullptr;
  std::memcpy(&handle, command.in.data() + *place, sizeof handle);
  const auto found = ucma.find_id(command.channel, handle);
  return found ? *found : nullptr;
}

Status write_to_kernel(const Id& id, std::uint32_t number, const Command& command) {
  std::vector<std::uint8_t> in{command.in.begin(), command.in.end()};
  std::memcpy(in.data() + *place_of_id(number), &*id.kernels, sizeof *id.kernels);
  return command.channel.kernels->write(number, in, command.room);
}

template <typename T>
Status set(const KernelSide& kernel, std::uint32_t handle, std::uint32_t option, T value) {
  const rdma_ucm_set_option in{.optval = reinterpret_cast<std::uint64_t>(&value),
                               .id = handle,
                               .level = RDMA_OPTION_ID,
                               .optname = option,
                               .optlen = sizeof value};
  return kernel.command(RDMA_USER_CM_CMD_SET_OPTION, in);
}

/// What the program had set before it named an address.
Status repeat_options(const KernelSide& kernel, const Id& id, std::uint32_t handle) {
  Status done = Ok{};
  if (id.traffic_class != 0) done = set(kernel, handle, RDMA_OPTION_ID_TOS, id.traffic_class);
  if (done && id.ack_timeout)
    done = set(kernel, handle, RDMA_OPTION_ID_ACK_TIMEOUT, *id.ack_timeout);
  if (done && id.reuse) done = set(kernel, handle, RDMA_OPTION_ID_REUSEADDR, int{1});
  if (done && id.one_family) done = set(kernel, handle, RDMA_OPTION_ID_AFONLY, int{1});
  return done;
}

/// Its handle. EACCES and the like: the kernel's device can't be used.
Result<std::uint32_t> create_in_kernel(Ucma& ucma, const Id& id) {
  const auto kernel = ucma.kernel_side(*id.channel);
  if (!kernel) return kernel.error();
  rdma_ucm_create_id_resp created{};
  const rdma_ucm_create_id in{.uid = id.uid,
                              .response = reinterpret_cast<std::uint64_t>(&created),
                              .ps = static_cast<std::uint16_t>(id.space),
                              .qp_type = id.qp_type,
                              .reserved = {}};
  Status done = (*kernel)->command(RDMA_USER_CM_CMD_CREATE_ID, in, sizeof created);
  if (!done) return done.error();
  done = repeat_options(**kernel, id, created.id);
  if (done) return created.id;
  ucma.destroy_in_kernel(*id.channel, created.id);
  return done.error();
}

Status start_twin(Ucma& ucma, Id& id, int backlog) {
  const auto handle = create_in_kernel(ucma, id);
  if (!handle) return handle.error();
  ucma.attach_twin(id, *handle);
  rdma_ucm_bind_ip where{};
  where.id = *handle;
  put_endpoint(&where.addr, id.v6, std::nullopt, id.source_port, 0);
  const KernelSide& kernel = *id.channel->kernels;
  if (auto bound = kernel.command(RDMA_USER_CM_CMD_BIND_IP, where); !bound) return bound;
  const rdma_ucm_listen how{.id = *handle, .backlog = static_cast<std::uint32_t>(backlog)};
  return kernel.command(RDMA_USER_CM_CMD_LISTEN, how);
}

}  // namespace

std::optional<Status> pass_on(Ucma& ucma, std::uint32_t number, const Command& command) {
  Id* const id = id_of(ucma, number, command);
  if (id == nullptr || !id->kernels) return std::nullopt;
  if (number == RDMA_USER_CM_CMD_ACCEPT) id->uid = command.as<rdma_ucm_accept>().uid;
  return write_to_kernel(*id, number, command);
}

Status hand_over(Ucma& ucma, std::uint32_t number, const Command& command) {
  Id* const id = id_of(ucma, number, command);
  if (id == nullptr || id->state != IdState::idle) {
    return Error{EADDRNOTAVAIL,
                 "the id is bound to our devices, but the address belongs to another device"};
  }
  const auto handle = create_in_kernel(ucma, *id);
  if (!handle) return handle.error();
  ucma.attach(*id, *handle);
  auto done = write_to_kernel(*id, number, command);
  if (!done) ucma.detach_from_kernel(*id);  // the program may try another address
  return done;
}

bool listen_in_kernel(Ucma& ucma, Id& id, int backlog) {
  if (id.twin) return true;
  if (host::config().only) return false;
  // Looked for once: clients of perftest come back while its server goes from one listener to the
  // next.
  if (!ucma.uses_kernel() && host::roce_interfaces().empty()) return false;
  const Status done = start_twin(ucma, id, backlog);
  if (done) return true;
  ucma.detach_from_kernel(id);
  const Error& why = done.error();
  host::log(host::LogLevel::warn, "rdma_listen, port {}: can't listen on the kernel's devices: {}",
            id.source_port, why.message.empty() ? std::strerror(why.code) : why.message);
  return false;
}

}  // namespace verbena::front::ucma
