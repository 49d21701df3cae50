#include "front/ucma/ucma.h"

#include <algorithm>
#include <vector>

#include "front/verbs/guarded.h"
#include "front/verbs/nic.h"
#include "host/shutdown/fork_handlers.h"

namespace verbena::front::ucma {

Ucma::Ucma()
    : kernel_watch_{[](std::uint64_t inode) noexcept {
        Ucma& ucma = instance();
        const auto lock = ucma.lock();
        Channel* const channel = ucma.find_channel(inode);
        if (channel == nullptr) return;  // closed meanwhile
        static_cast<void>(guarded_status("rdma_cm event of the kernel's", [&]() -> Status {
          ucma.take_kernel_events(*channel);
          return Ok{};
        }));
      }} {}

Ucma& Ucma::instance() {
  static auto& all = *new Ucma;
  return all;
}

Result<host::Nic*> Ucma::nic() {
  auto started = start_nic();
  if (!started) return started;
  if (nic_ != *started) {
    nic_ = *started;
    nic_->observe_connections(this);
    survive_fork();
    disconnect_at_exit();
  }
  return nic_;
}

void Ucma::survive_fork() {
  static constexpr host::ForkHandler handler{.prepare = [] { instance().mutex_.lock(); },
                                             .parent = [] { instance().mutex_.unlock(); },
                                             .child =
                                                 [] {
                                                   instance().forget_all();
                                                   instance().mutex_.unlock();
                                                 }};
  host::at_fork(host::ForkRank::rdma_cm, handler);
}

void Ucma::forget_all() {
  nic_ = nullptr;
  kernel_watch_.forget();  // before the channels: they would end what the parent watches
  by_kernel_handle_.clear();
  by_connection_.clear();
  by_listener_.clear();
  memberships_.clear();
  ids_.clear();
  channels_.clear();
}

// ---- channels

Result<int> Ucma::open_channel(bool close_on_exec, bool nonblocking) {
  if (channels_.size() >= sweep_at_) sweep();
  int fd = -1;
  auto opened = Channel::open(close_on_exec, nonblocking, fd);
  if (!opened) return opened.error();
  channels_[(*opened)->inode].reset(*opened);
  return fd;
}

Channel* Ucma::find_channel(ino_t inode) {
  const auto found = channels_.find(inode);
  return found == channels_.end() ? nullptr : found->second.get();
}

void Ucma::closed(ino_t inode) {
  const auto found = channels_.find(inode);
  if (found == channels_.end() || !found->second->abandoned()) return;
  destroy(*found->second);
  channels_.erase(found);
}

void Ucma::sweep() {
  std::erase_if(channels_, [this](const auto& entry) {
    if (!entry.second->abandoned()) return false;
    destroy(*entry.second);
    return true;
  });
  sweep_at_ = std::max<std::size_t>(16, 2 * channels_.size());
}

void Ucma::destroy(Channel& channel) {
  std::vector<std::uint32_t> gone;
  for (const auto& [handle, id] : ids_) {
    if (id->channel == &channel) gone.push_back(handle);
  }
  for (const std::uint32_t handle : gone) {
    // A listener may have taken its requests along.
    if (const auto it = ids_.find(handle); it != ids_.end()) destroy_id(*it->second);
  }
}

}  // namespace verbena::front::ucma
