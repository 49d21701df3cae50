#include "front/ucma/passed_on.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>
#include <cstring>
#include <vector>

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
  return command.channel.kernels->command(number, in, command.room);
}

template <typename T>
Status set(const KernelSide& kernel, const Id& id, std::uint32_t option, T value) {
  const rdma_ucm_set_option in{.optval = reinterpret_cast<std::uint64_t>(&value),
                               .id = *id.kernels,
                               .level = RDMA_OPTION_ID,
                               .optname = option,
                               .optlen = sizeof value};
  return kernel.command(RDMA_USER_CM_CMD_SET_OPTION, in);
}

/// What the program had set before it named an address.
Status repeat_options(const KernelSide& kernel, const Id& id) {
  Status done = Ok{};
  if (id.traffic_class != 0) done = set(kernel, id, RDMA_OPTION_ID_TOS, id.traffic_class);
  if (done && id.ack_timeout) done = set(kernel, id, RDMA_OPTION_ID_ACK_TIMEOUT, *id.ack_timeout);
  if (done && id.reuse) done = set(kernel, id, RDMA_OPTION_ID_REUSEADDR, int{1});
  if (done && id.one_family) done = set(kernel, id, RDMA_OPTION_ID_AFONLY, int{1});
  return done;
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
    return Error{EADDRNOTAVAIL, "the id is bound to our devices, and the address is another's"};
  }
  auto kernel = ucma.kernel_side(command.channel);
  if (!kernel) return kernel.error();
  rdma_ucm_create_id_resp created{};
  const rdma_ucm_create_id in{.uid = id->uid,
                              .response = reinterpret_cast<std::uint64_t>(&created),
                              .ps = static_cast<std::uint16_t>(id->space),
                              .qp_type = id->qp_type,
                              .reserved = {}};
  if (auto made = (*kernel)->command(RDMA_USER_CM_CMD_CREATE_ID, in, sizeof created); !made) {
    return made;
  }
  ucma.attach(*id, created.id);
  auto done = repeat_options(**kernel, *id);
  if (done) done = write_to_kernel(*id, number, command);
  if (!done) ucma.detach_from_kernel(*id);  // the program may try another address
  return done;
}

}  // namespace verbena::front::ucma
