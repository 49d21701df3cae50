// Ids of Ucma that live in the kernel: see kernel_side.h.

#include <algorithm>

#include "front/ucma/ucma.h"

namespace verbena::front::ucma {

Result<KernelSide*> Ucma::kernel_side(Channel& channel) {
  if (channel.kernels == nullptr) {
    survive_fork();
    auto opened = KernelSide::open(kernel_watch_, channel.inode);
    if (!opened) return opened.error();
    channel.kernels = std::move(*opened);
    uses_kernel_ = true;
  }
  return channel.kernels.get();
}

void Ucma::attach(Id& id, std::uint32_t handle) {
  id.kernels = handle;
  by_kernel_handle_[handle] = &id;
}

void Ucma::attach_twin(Id& id, std::uint32_t handle) {
  id.twin = handle;
  by_kernel_handle_[handle] = &id;
}

void Ucma::destroy_in_kernel(const Channel& channel, std::uint32_t handle) {
  rdma_ucm_destroy_id_resp response{};
  const rdma_ucm_destroy_id in{
      .response = reinterpret_cast<std::uint64_t>(&response), .id = handle, .reserved = 0};
  static_cast<void>(channel.kernels->command(RDMA_USER_CM_CMD_DESTROY_ID, in, sizeof response));
}

void Ucma::detach_from_kernel(Id& id) {
  for (auto* const handle : {&id.kernels, &id.twin}) {
    if (!*handle) continue;
    destroy_in_kernel(*id.channel, **handle);
    by_kernel_handle_.erase(**handle);
    handle->reset();
  }
}

Status Ucma::move_in_kernel(const Id& id, Channel& to) {
  for (const auto& handle : {id.kernels, id.twin}) {
    if (!handle) continue;
    auto kernel = kernel_side(to);
    if (!kernel) return kernel.error();
    rdma_ucm_migrate_resp response{};
    const rdma_ucm_migrate_id in{.response = reinterpret_cast<std::uint64_t>(&response),
                                 .id = *handle,
                                 .fd = static_cast<std::uint32_t>(id.channel->kernels->fd())};
    auto moved = (*kernel)->command(RDMA_USER_CM_CMD_MIGRATE_ID, in, sizeof response);
    if (!moved) return moved;
  }
  return Ok{};
}

void Ucma::take_kernel_events(Channel& channel) {
  if (channel.kernels == nullptr) return;
  while (const auto event = channel.kernels->next_event()) handle_kernel_event(channel, *event);
}

/// As the kernel's, but for the names of ids, which are ours.
void Ucma::handle_kernel_event(Channel& channel, rdma_ucm_event_resp event) {
  QueuedEvent queued{};
  if (event.event == static_cast<std::uint32_t>(EventType::connect_request)) {
    // It names the new id, and the listener by what the program calls it.
    const auto listener = std::ranges::find_if(by_kernel_handle_, [&](const auto& entry) {
      return entry.second->channel == &channel && entry.second->uid == event.uid;
    });
    if (listener == by_kernel_handle_.end()) return;
    queued.id = listener->second->handle;
    Id& id = create_id(channel);
    attach(id, event.id);
    queued.request = id.handle;
    event.id = id.handle;
  } else {
    const auto found = by_kernel_handle_.find(event.id);
    if (found == by_kernel_handle_.end()) return;  // destroyed meanwhile
    queued.id = event.id = found->second->handle;
  }
  queued.event = event;
  channel.add(queued);
}

}  // namespace verbena::front::ucma
