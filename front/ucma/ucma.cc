#include "front/ucma/ucma.h"

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "cm/connection_manager.h"
#include "front/ucma/addresses.h"
#include "front/ucma/path.h"
#include "front/verbs/guarded.h"
#include "front/verbs/nic.h"

namespace verbena::front::ucma {

namespace {

std::uint64_t key(cm::ConnectionId id) { return static_cast<std::uint64_t>(id); }
std::uint64_t key(cm::ListenerId id) { return static_cast<std::uint64_t>(id); }

/// What the program is told, and where the id stands then.
struct Outcome {
  EventType event;
  IdState state;
};

Outcome outcome_of(cm::EventKind kind, IdState now) {
  switch (kind) {
    case cm::EventKind::connect_request:
      return {EventType::connect_request, IdState::connecting};
    case cm::EventKind::connect_response:
      return {EventType::connect_response, IdState::connected};
    case cm::EventKind::established:
      return {EventType::established, IdState::connected};
    case cm::EventKind::rejected:
      return {EventType::rejected, IdState::over};
    case cm::EventKind::unreachable:
      return {EventType::unreachable, IdState::over};
    case cm::EventKind::connect_error:
      return {EventType::connect_error, IdState::over};
    case cm::EventKind::disconnected:
      return {EventType::disconnected, now};
    case cm::EventKind::timewait_exit:
      return {EventType::timewait_exit, IdState::over};
  }
  return {EventType::connect_error, IdState::over};
}

}  // namespace

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
    hang_up_at_exit();
  }
  return nic_;
}

/// Peers of a program that just ends hear of it, as the kernel tells them when it closes the
/// device. Its ids stay: its own destructors may still come and destroy them.
void Ucma::hang_up_at_exit() {
  static const int registered = std::atexit([] { instance().hang_up(); });
  static_cast<void>(registered);
}

void Ucma::hang_up() {
  // exit() may have been called by a signal handler, on a thread that has the locks.
  constexpr Duration kPatience = std::chrono::milliseconds{20};
  constexpr Duration kPause = std::chrono::microseconds{50};
  std::unique_lock held{mutex_, std::try_to_lock};
  for (Duration waited{}; !held && waited < kPatience; waited += kPause) {
    std::this_thread::sleep_for(kPause);
    static_cast<void>(held.try_lock());
  }
  if (!held || nic_ == nullptr) return;
  nic_->manage_within(kPatience, [&](cm::ConnectionManager& manager, Instant now) {
    for (const auto& [handle, id] : ids_) {
      if (id->connection) manager.destroy(*id->connection, now);
    }
  });
  // The NIC thread needs it to repeat a good-bye that the network lost. Nobody will when we are
  // gone, and the peer would wait for ever: so we stay for one repetition, at most.
  held.unlock();
  constexpr Duration kAnswered = std::chrono::milliseconds{450};
  bool waits = true;
  const auto look = [&](cm::ConnectionManager& manager, Instant) {
    waits = manager.says_goodbye();
  };
  for (const auto end = std::chrono::steady_clock::now() + kAnswered;
       waits && std::chrono::steady_clock::now() < end;) {
    if (!nic_->manage_within(kPatience, look)) return;
    if (waits) std::this_thread::sleep_for(kPause);
  }
  nic_->manage_within(
      kPatience, [](cm::ConnectionManager& manager, Instant) { manager.answer_goodbyes_again(); });
}

/// Registered after the NIC's own, so that our lock is taken before the NIC's.
void Ucma::survive_fork() {
  static const int registered =
      pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                     [] {
                       instance().forget_all();
                       instance().mutex_.unlock();
                     });
  static_cast<void>(registered);
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

// ---- ids

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
  if (found == ids_.end()) return Error{ENOENT, "no such id: " + std::to_string(handle)};
  if (found->second->channel != &channel) {
    return Error{EINVAL, "id " + std::to_string(handle) + " is another event channel's"};
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
  by_listener_.erase(key(*id.listener));
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
  if (id.connection) by_connection_.erase(key(*id.connection));
  drop_events_of(id);
  std::erase_if(memberships_, [&](const auto& m) { return m.second->id == id.handle; });
  ids_.erase(id.handle);
}

void Ucma::attach(Id& id, cm::ConnectionId connection) {
  id.connection = connection;
  by_connection_[key(connection)] = &id;
}

void Ucma::attach(Id& id, cm::ListenerId listener) {
  id.listener = listener;
  by_listener_[key(listener)] = &id;
}

// ---- ids that the kernel has

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

// ---- multicast

Membership& Ucma::create_membership(Id& id, std::uint64_t uid) {
  auto m =
      std::make_unique<Membership>(Membership{.handle = new_handle(), .uid = uid, .id = id.handle});
  return *(memberships_[m->handle] = std::move(m));
}

Result<Membership*> Ucma::find_membership(std::uint32_t handle) {
  const auto found = memberships_.find(handle);
  if (found == memberships_.end()) {
    return Error{ENOENT, "no such membership: " + std::to_string(handle)};
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

// ---- events

void Ucma::tell(Id& id, EventType event, int status) {
  QueuedEvent queued{.id = id.handle};
  queued.event.uid = id.uid;
  queued.event.id = id.handle;
  queued.event.event = static_cast<std::uint32_t>(event);
  queued.event.status = static_cast<std::uint32_t>(status);
  id.channel->add(queued);
}

bool Ucma::connection_events(Wait wait) {
  std::unique_lock held{mutex_, std::defer_lock};
  if (wait == Wait::yes) {
    held.lock();
  } else if (!held.try_lock()) {
    return false;
  }
  try {
    take_news();
  } catch (...) {  // no memory: whoever waits for the event asks again, or runs into his timeout
    report_exception("rdma_cm event");
  }
  return true;
}

void Ucma::take_news() {
  if (nic_ == nullptr) return;
  for (const cm::Event& news : nic_->take_connection_events()) {
    news.kind == cm::EventKind::connect_request ? handle_request(news) : handle(news);
  }
}

void Ucma::handle(const cm::Event& news) {
  const auto found = by_connection_.find(key(news.id));
  if (found == by_connection_.end()) return;  // destroyed meanwhile
  Id& id = *found->second;
  const Outcome outcome = outcome_of(news.kind, id.state);
  id.state = outcome.state;
  if (id.uid == 0) return;  // a request that the program hasn't accepted: it hears of it then

  QueuedEvent queued{.id = id.handle};
  queued.event.uid = id.uid;
  queued.event.id = id.handle;
  queued.event.event = static_cast<std::uint32_t>(outcome.event);
  queued.event.status = static_cast<std::uint32_t>(news.status);
  put_offer(queued.event, news, id);
  id.channel->add(queued);
}

void Ucma::handle_request(const cm::Event& news) {
  const auto found = by_listener_.find(key(news.listener));
  auto device = device_with(news.offer.local.address, 0);
  if (found == by_listener_.end() || !device || full()) {
    nic_->manage([&](cm::ConnectionManager& m, Instant now) { m.destroy(news.id, now); });
    return;
  }
  Id& listener = *found->second;
  Id& id = create_id(*listener.channel);
  id.space = listener.space;
  id.datagrams = listener.datagrams;
  id.transport = news.offer.transport;
  id.state = IdState::connecting;
  id.v6 = !news.offer.local.address.is_v4();
  id.source = news.offer.local.address;
  id.source_port = news.offer.local.port;
  id.destination = news.offer.remote.address;
  id.destination_port = news.offer.remote.port;
  id.device = std::move(*device);
  id.traffic_class = listener.traffic_class;
  attach(id, news.id);

  // It goes to the listener, and names the new id.
  QueuedEvent queued{.id = listener.handle, .request = id.handle, .connection = news.id};
  queued.event.uid = listener.uid;
  queued.event.id = id.handle;
  queued.event.event = static_cast<std::uint32_t>(EventType::connect_request);
  put_offer(queued.event, news, id);
  listener.channel->add(queued);
}

}  // namespace verbena::front::ucma
