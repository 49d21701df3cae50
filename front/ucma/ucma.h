#pragma once

// Everything behind /dev/infiniband/rdma_cm, of one process: channels, ids, and what the
// connection manager says about them.
//
//   program --write()--> commands.h --> Ucma --> host::Nic --> cm::ConnectionManager
//   program <-GET_EVENT- Channel  <--- Ucma <-- cm::Event
//
// One lock for all of it, taken before the NIC's. Functions want it held unless they say so.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/result.h"
#include "cm/event.h"
#include "front/ucma/channel.h"
#include "front/ucma/event_type.h"
#include "front/ucma/id.h"
#include "host/events/descriptor_watch.h"
#include "host/nic.h"

namespace verbena::front::ucma {

class Ucma final : host::ConnectionObserver {
 public:
  /// Never destroyed: threads of the program may outlive our destructors.
  static Ucma& instance();

  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock{mutex_}; }

  /// Starts the NIC if it isn't running.
  [[nodiscard]] Result<host::Nic*> nic();

  // Channels.

  [[nodiscard]] Result<int> open_channel(bool close_on_exec, bool nonblocking);
  /// nullptr: it was a parent's.
  [[nodiscard]] Channel* find_channel(ino_t inode);
  /// A descriptor of it was closed: destroys what belongs to it if that was the last.
  void closed(ino_t inode);

  // Ids.

  Id& create_id(Channel& channel);
  /// ENOENT; EINVAL: it is another channel's.
  [[nodiscard]] Result<Id*> find_id(Channel& channel, std::uint32_t handle);
  [[nodiscard]] bool full() const { return ids_.size() + memberships_.size() >= kMaxHandles; }
  /// To another channel; its events are the caller's to move.
  void move(std::uint32_t handle, Channel& channel);
  /// Ends its connection, frees its port, forgets its events.
  void destroy_id(Id& id);
  /// Requests that nobody has taken are refused.
  void stop_listening(Id& id);

  [[nodiscard]] Result<Membership*> find_membership(std::uint32_t handle);
  Membership& create_membership(Id& id, std::uint64_t uid);
  void destroy_membership(const Membership& membership);

  // Events.

  /// To the program: it happened to `id`.
  void tell(Id& id, EventType event, int status = 0);
  /// The connection manager's news, to whom they concern.
  void take_news();
  /// `connection` is now `id`'s.
  void attach(Id& id, cm::ConnectionId connection);
  void attach(Id& id, cm::ListenerId listener);

  // Ids that the kernel has.

  [[nodiscard]] Result<KernelSide*> kernel_side(Channel& channel);
  /// There was one before.
  [[nodiscard]] bool uses_kernel() const { return uses_kernel_; }
  /// `id` is the kernel's `handle` from now on.
  void attach(Id& id, std::uint32_t handle);
  /// `id`, a listener of ours, is also the kernel's `handle`.
  void attach_twin(Id& id, std::uint32_t handle);
  void detach_from_kernel(Id& id);
  static void destroy_in_kernel(const Channel& channel, std::uint32_t handle);
  [[nodiscard]] Status move_in_kernel(const Id& id, Channel& to);

 private:
  /// Half of what librdmacm has room for: a free one is found at once.
  static constexpr std::uint32_t kMaxHandles = 1u << 18;

  Ucma();
  void destroy(Channel& channel);
  /// Destroys what belongs to channels that nobody holds any more. Forked children and
  /// close_range() go around the hook: once in a while.
  void sweep();
  void survive_fork();
  void disconnect_at_exit();
  void disconnect_all();
  void wait_for_dreps();
  void forget_all();

  // host::ConnectionObserver; without the lock
  bool connection_events(Wait wait) override;

  void handle(const cm::Event& news);
  void handle_request(const cm::Event& news);
  void take_kernel_events(Channel& channel);
  void handle_kernel_event(Channel& channel, rdma_ucm_event_resp event);
  void drop_events_of(Id& id);
  [[nodiscard]] std::uint32_t new_handle();

  std::mutex mutex_;
  host::Nic* nic_ = nullptr;
  std::map<ino_t, std::unique_ptr<Channel>> channels_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Id>> ids_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Membership>> memberships_;
  std::unordered_map<cm::ConnectionId, Id*> by_connection_;
  std::unordered_map<cm::ListenerId, Id*> by_listener_;
  std::unordered_map<std::uint32_t, Id*> by_kernel_handle_;
  host::DescriptorWatch kernel_watch_;  // by the channel's inode
  bool uses_kernel_ = false;
  std::uint32_t next_handle_ = 0;
  std::size_t sweep_at_ = 16;  // channels
};

}  // namespace verbena::front::ucma
