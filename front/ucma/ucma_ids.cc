// The ids of Ucma, and their memberships in multicast groups.

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cm/connection_manager.h"
#include "front/ucma/ucma.h"

namespace verbena::front::ucma {

/// librdmacm has a table of a million of them.
std::uint32_t Ucma::new_handle() {
  constexpr std::uint32_t kMask = 2 * kMaxHandles - 1;
  do {
    next_handle_ = (next_handle_ + 1) & kMask;
  } while (next_handle_ == 0 || ids_.contains(next_handle_) || memberships_.contains(next_handle_));
  return next_handle_;
}

Id& Ucma::create_id(Channel& channel) {
  auto id = std::make_unique<Id>();
  id->handle = new_handle();
  id->channel = &channel;
  std::uint32_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) std::abort();  // see SystemEntropy
  id->starting_psn = Psn{random};
  return *(ids_[id->handle] = std::move(id));
}

Result<Id*> Ucma::find_id(Channel& channel, std::uint32_t handle) {
  const auto found = ids_.find(handle);
  if (found == ids_.end()) return Error{ENOENT, "there is no id " + std::to_string(handle)};
  if (found->second->channel != &channel) {
    return Error{EINVAL, "id " + std::to_string(handle) + " belongs to another event channel"};
  }
  return found->second.get();
}

void Ucma::move(std::uint32_t handle, Channel& channel) {
  if (const auto it = ids_.find(handle); it != ids_.end()) it->second->channel = &channel;
}

void Ucma::drop_events_of(Id& id) {
  std::vector<std::uint32_t> requests;
  id.channel->remove([&](const QueuedEvent& e) { return e.id == id.handle; },
                     [&](const QueuedEvent& e) {
                       if (e.request) requests.push_back(*e.request);
                     });
  // Requests that the program has never heard of go with their listener.
  for (const std::uint32_t handle : requests) {
    if (const auto it = ids_.find(handle); it != ids_.end()) destroy_id(*it->second);
  }
}

void Ucma::stop_listening(Id& id) {
  if (nic_ != nullptr) {
    nic_->manage([&](cm::ConnectionManager& manager, Instant) { manager.close(*id.listener); });
  }
  by_listener_.erase(*id.listener);
  id.listener.reset();
  drop_events_of(id);
}

void Ucma::destroy_id(Id& id) {
  if (nic_ != nullptr) {
    // First: requests that come from now on wait for the next one who listens there. Those for a
    // listener that is gone would be refused.
    if (id.port) nic_->release_port(*id.port);
    nic_->manage([&](cm::ConnectionManager& manager, Instant now) {
      if (id.connection) manager.destroy(*id.connection, now);
    });
  }
  detach_from_kernel(id);
  if (id.listener) stop_listening(id);
  if (id.connection) by_connection_.erase(*id.connection);
  drop_events_of(id);
  std::erase_if(memberships_, [&](const auto& m) { return m.second->id == id.handle; });
  ids_.erase(id.handle);
}

void Ucma::attach(Id& id, cm::ConnectionId connection) {
  id.connection = connection;
  by_connection_[connection] = &id;
}

void Ucma::attach(Id& id, cm::ListenerId listener) {
  id.listener = listener;
  by_listener_[listener] = &id;
}

Membership& Ucma::create_membership(Id& id, std::uint64_t uid) {
  auto m =
      std::make_unique<Membership>(Membership{.handle = new_handle(), .uid = uid, .id = id.handle});
  return *(memberships_[m->handle] = std::move(m));
}

Result<Membership*> Ucma::find_membership(std::uint32_t handle) {
  const auto found = memberships_.find(handle);
  if (found == memberships_.end()) {
    return Error{ENOENT, "there is no membership " + std::to_string(handle)};
  }
  return found->second.get();
}

void Ucma::destroy_membership(const Membership& membership) {
  const std::uint32_t handle = membership.handle;
  if (const auto owner = ids_.find(membership.id); owner != ids_.end()) {
    owner->second->channel->remove([&](const QueuedEvent& e) { return e.membership == handle; },
                                   [](const auto&) {});
  }
  memberships_.erase(handle);
}

}  // namespace verbena::front::ucma
