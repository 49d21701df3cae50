#include "host/nic.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>

#include "base/bytes.h"
#include "cm/connection_manager.h"
#include "host/clock.h"
#include "host/config.h"
#include "host/frame_memory.h"
#include "host/gsi.h"
#include "host/log.h"
#include "host/multicast_group.h"
#include "host/nic_thread.h"
#include "host/program_memory.h"
#include "host/system_entropy.h"
#include "host/waiting_requests.h"
#include "packet/bth.h"
#include "packet/mad.h"
#include "wire/udp_wire.h"

namespace verbena::host {

namespace {

/// Rounds of receive and send that the NIC thread does before it lets go of the lock.
constexpr int kRounds = 4;
/// Polls in vain before a poller begins to offer its core to others: some 50 µs.
constexpr unsigned kPatience = 64;
/// When the NIC thread looks again at an engine that somebody else had.
constexpr Duration kBusy = std::chrono::microseconds{50};
/// Full sockets say when they have room again; this is only in case they don't.
constexpr Duration kFull = std::chrono::milliseconds{1};

/// Sockets are cancellation points; a thread that ended in one would take the lock with it.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace

/// The host's part of what an event is about.
EventSource& source_of(const engine::Event& e) {
  if (e.qp != nullptr) return static_cast<QueuePair*>(e.qp->cookie)->events;
  if (e.srq != nullptr) return static_cast<SharedReceiveQueue*>(e.srq->cookie)->events;
  return static_cast<CompletionQueue*>(e.cq->cookie())->events;
}

/// Events that the program took; there will be no more.
unsigned silence(EventSource& source) {
  return source.channel != nullptr ? source.channel->forget(source) : 0;
}

/// Everything behind `engine` belongs to whoever holds it.
class Nic::Impl final : wire::DatagramSink, NicThread::Work {
 public:
  Impl(std::unique_ptr<FrameMemory> frames, std::unique_ptr<wire::UdpWire> udp)
      : frames_{std::move(frames)},
        wire_{std::move(udp)},
        rnic{wire_->slot(), *frames_, entropy_},
        manager{{.slot = wire_->slot()}, entropy_},
        thread_{*this} {}

  Status start() { return thread_.start(wire_->data_fd(), wire_->control_fd()); }

  /// A program's thread, after posting: send, if nobody else has the engine.
  void send_inline() {
    // Whoever has it looks for doorbells after it let go, so a failed try loses nothing.
    const NoCancellation shield;
    while (rnic.has_doorbells()) {
      std::unique_lock lock{engine, std::try_to_lock};
      if (!lock) return;
      step(Receive::no);
      settle(lock);
      tell_observer(ConnectionObserver::Wait::no);
    }
  }

  /// A program's thread that polls in vain.
  void progress_inline() {
    {
      const NoCancellation shield;
      std::unique_lock lock{engine, std::try_to_lock};
      if (!lock) return;
      step(Receive::yes);
      thread_.polled(now_);
      settle(lock);
    }
    tell_observer(ConnectionObserver::Wait::no);
    send_inline();
  }

  void expect_sleep() { thread_.return_to_duty(); }

  /// Set-up, under the lock; whatever it leaves to do is done.
  template <typename F>
  auto locked(F&& f) {
    const NoCancellation shield;
    std::unique_lock lock{engine};
    auto result = f();
    step(Receive::no);
    settle(lock);
    return result;
  }

  [[nodiscard]] wire::UdpWire& wire() { return *wire_; }

  std::vector<cm::Event> take_connection_events() {
    const NoCancellation shield;
    const std::lock_guard lock{engine};
    connection_events_.store(false, std::memory_order_relaxed);
    return std::exchange(manager.events(), {});
  }
  void observe(ConnectionObserver* observer) { observer_.store(observer); }

  Status destroy_qp(engine::QueuePair& qp) {
    const std::array rings{qp.send_cq, qp.receive_cq};
    const Qpn qpn = qp.qpn;
    if (auto destroyed = rnic.destroy_qp(qp, *wire_); !destroyed) return destroyed;
    discard_completions(qpn, rings);
    return Ok{};
  }
  /// Of a queue pair that begins anew or goes, no old completion comes up any more: its number
  /// may soon mean another one.
  static void discard_completions(Qpn qpn, std::span<engine::CompletionQueue* const> rings) {
    for (engine::CompletionQueue* ring : rings) {
      if (ring == nullptr) continue;
      const std::lock_guard polling{static_cast<CompletionQueue*>(ring->cookie())->polling};
      ring->discard(qpn);
    }
  }
  /// The flow but for its source port; its source address is open afterwards.
  Result<packet::Flow> open_flow(const Device& device, const engine::AddressVector& path);
  Status open_path(const Device& device, const engine::QueuePair& qp, engine::QpAttributes& a);
  Status open_datagrams(const Device& device, QueuePair& qp);
  Status attach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid);
  Status detach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid);
  void leave_groups(QueuePair& qp) {
    for (const Membership& m : qp.groups) wire_->leave(m.group, m.interface);
    qp.groups.clear();
  }

  void abandon() {
    wire_->abandon();
    frames_->abandon();
    thread_.abandon();
  }

 private:
  enum class Receive : bool { no, yes };

  /// One round. True: there was something, so there may be more.
  bool step(Receive receive) {
    now_ = now();
    received_ = receive == Receive::yes && wire_->receive(*this) > 0;
    blocked_ = !rnic.work(*wire_, now_);
    if (waiting_.next_look() <= now_) look_for_listeners();
    if (manager.next_deadline() <= now_) manager.expire(now_);
    if (!manager.outbox().empty()) send_messages();
    if (!manager.events().empty()) connection_events_.store(true, std::memory_order_relaxed);
    wire_->flush();
    for (engine::CompletionQueue* ring : rnic.notifications()) {
      auto* cq = static_cast<CompletionQueue*>(ring->cookie());
      if (cq->channel != nullptr) cq->channel->raise(*cq);
    }
    rnic.notifications().clear();
    for (const engine::Event& e : rnic.events()) {
      EventSource& source = source_of(e);
      if (source.channel == nullptr) continue;
      source.channel->raise({static_cast<std::uint8_t>(e.kind), &source});
    }
    rnic.events().clear();
    if (wire_->counters().send_errors != send_errors_) report_send_error();
    return received_ || (rnic.has_work() && !blocked_);
  }

  /// The network may lose packets without a word, but not those that never left. One line for
  /// each new reason, not for each packet.
  void report_send_error() {
    send_errors_ = wire_->counters().send_errors;
    if (wire_->last_send_error() == reported_) return;
    reported_ = wire_->last_send_error();
    log(LogLevel::warn, "{}", reported_);
  }

  void send_messages() {
    auto& outbox = manager.outbox();
    std::size_t sent = 0;
    for (const cm::OutgoingMad& mad : outbox) {
      const auto port = wire_->source_port(mad.route.local, packet::kGsiQpn);
      // Without the address, or room, it counts as lost: whoever waits for it will ask again.
      if (port && !gsi_.send(mad, *port, *wire_)) {
        blocked_ = true;
        break;
      }
      ++sent;
    }
    outbox.erase(outbox.begin(), outbox.begin() + static_cast<std::ptrdiff_t>(sent));
  }

  /// Without the engine: the observer takes the events with a lock of its own held. A program's
  /// thread doesn't wait for that lock, the NIC thread does it then.
  void tell_observer(ConnectionObserver::Wait wait) {
    if (!connection_events_.load(std::memory_order_relaxed)) return;
    ConnectionObserver* const observer = observer_.load();
    if (observer == nullptr) return;
    const NoCancellation shield;
    if (!observer->connection_events(wait)) thread_.wake_by(now());
  }

  /// Lets go of the engine, and has the NIC thread do what is left.
  void settle(std::unique_lock<std::mutex>& lock) {
    const Instant deadline = wake_at();
    lock.unlock();
    thread_.wake_by(deadline);
  }

  [[nodiscard]] Instant wake_at() const {
    const Instant deadline =
        std::min({rnic.next_deadline(), manager.next_deadline(), waiting_.next_look()});
    if (blocked_) return std::min(now_ + kFull, deadline);
    if (rnic.has_work()) return now_;
    return deadline;
  }

  // wire::DatagramSink
  void datagram(const packet::Datagram& d) override {
    constexpr std::size_t kDestinationQpn = 5;  // its offset in the BTH
    if (d.bytes.size() >= packet::Bth::kSize &&
        Qpn{load_be24(&d.bytes[kDestinationQpn])} == packet::kGsiQpn) {
      if (!wire_->nobody_listens(d) || !waiting_.add(d, now_)) manage_datagram(d);
      return;
    }
    rnic.receive(d, now_);
  }
  void manage_datagram(const packet::Datagram& d) {
    if (const auto mad = mad_of(d)) manager.receive(*mad, now_);
  }
  void look_for_listeners() {
    waiting_.look(now_, [this](const packet::Datagram& d, bool last) {
      if (wire_->pass_to_listener(d)) return true;
      if (wire_->nobody_listens(d) && !last) return false;
      manage_datagram(d);
      return true;
    });
  }

  // NicThread::Work
  Outcome work(bool control) override {
    std::unique_lock lock{engine, std::defer_lock};
    if (control) {
      lock.lock();
    } else if (!lock.try_lock()) {
      return {now() + kBusy, false};  // a program's thread is at it
    }
    now_ = now();
    if (control) wire_->serve_control(*this);
    bool useful = false;
    for (int i = 0; i < kRounds && step(Receive::yes); ++i) useful = useful || received_;
    const Instant deadline = wake_at();
    lock.unlock();
    tell_observer(ConnectionObserver::Wait::yes);
    send_inline();
    return {deadline, useful};
  }

  std::unique_ptr<FrameMemory> frames_;
  SystemEntropy entropy_;
  std::unique_ptr<wire::UdpWire> wire_;
  Instant now_ = now();
  bool received_ = false;  // by the last step
  bool blocked_ = false;
  std::uint64_t send_errors_ = 0;
  std::string reported_;  // the last of them
  Gsi gsi_;
  WaitingRequests waiting_;
  std::atomic<bool> connection_events_{false};
  std::atomic<ConnectionObserver*> observer_{nullptr};

 public:
  std::mutex engine;
  engine::Rnic rnic;
  cm::ConnectionManager manager;

 private:
  NicThread thread_;
};

Result<packet::Flow> Nic::Impl::open_flow(const Device& device, const engine::AddressVector& path) {
  if (!path.global) {
    return Error{EINVAL,
                 "the address vector has no GRH (is_global = 0); RoCE needs one: set is_global and "
                 "sgid_index"};
  }
  if (path.source_index >= device.gids.size()) {
    return Error{EINVAL, fmt::format("sgid_index {}, but {} has GIDs 0 to {}", path.source_index,
                                     device.name, device.gids.size() - 1)};
  }
  const IpAddress source = device.gids[path.source_index];
  const IpAddress destination = group_of(path.destination).value_or(path.destination);
  if (source.is_v4() != destination.is_v4()) {
    return Error{EINVAL,
                 fmt::format("GID {} of {} is {}, which can't reach {}: choose a "
                             "sgid_index of the same family",
                             path.source_index, device.name, source.text(), destination.text())};
  }
  if (auto opened = wire_->open_address(source, device.interface_index); !opened) {
    return opened.error();
  }
  return packet::Flow{.source = source,
                      .destination = destination,
                      .traffic_class = path.traffic_class,
                      .hop_limit = path.hop_limit};
}

Status Nic::Impl::open_path(const Device& device, const engine::QueuePair& qp,
                            engine::QpAttributes& a) {
  const auto flow = open_flow(device, a.path);
  if (!flow) return flow.error();
  if (flow->destination.is_multicast()) {
    return Error{EINVAL, fmt::format("{} is a multicast address: only UD sends to those",
                                     flow->destination.text())};
  }
  const auto port = wire_->source_port(flow->source, qp.qpn);
  if (!port) return port.error();
  a.flow = *flow;
  a.flow.source_port = *port;
  return Ok{};
}

/// Datagrams may come to, and leave from, any address of the device. One that can't be opened
/// is no reason to do without the others.
Status Nic::Impl::open_datagrams(const Device& device, QueuePair& qp) {
  if (!qp.ports.empty()) return Ok{};
  std::optional<Error> problem;
  for (const IpAddress& address : device.gids) {
    Status opened = wire_->open_address(address, device.interface_index);
    const auto port =
        opened ? wire_->source_port(address, qp.pair->qpn) : Result<std::uint16_t>{opened.error()};
    if (port) {
      qp.ports.add(address, *port);
      continue;
    }
    problem = port.error();
    log(LogLevel::warn, "qp {:#x}: no datagrams at {}: {}", qp.pair->qpn.value(), address.text(),
        problem->message);
  }
  if (qp.ports.empty() && problem) return *problem;
  return Ok{};
}

Status Nic::Impl::attach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  const auto group = group_of(gid);
  if (!group) return Error{EINVAL, fmt::format("{} is not a multicast GID", gid.text())};
  const Membership membership{*group, device.interface_index};
  if (std::find(qp.groups.begin(), qp.groups.end(), membership) != qp.groups.end()) return Ok{};
  if (auto joined = wire_->join(*group, device.interface_index); !joined) return joined;
  if (auto attached = rnic.attach_multicast(*qp.pair, *group); !attached) {
    wire_->leave(*group, device.interface_index);
    return attached;
  }
  qp.groups.push_back(membership);
  return Ok{};
}

Status Nic::Impl::detach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  const IpAddress group = group_of(gid).value_or(gid);
  if (auto detached = rnic.detach_multicast(*qp.pair, group); !detached) return detached;
  wire_->leave(group, device.interface_index);
  std::erase(qp.groups, Membership{group, device.interface_index});
  return Ok{};
}

// ---- one per process

namespace {

std::mutex starting;
std::atomic<Nic*> running{nullptr};

}  // namespace

Nic::Nic(std::unique_ptr<Impl> impl) : impl_{std::move(impl)} {}
Nic::~Nic() = default;

Result<Nic*> Nic::instance() {
  if (Nic* nic = running.load(std::memory_order_acquire)) return nic;
  const std::lock_guard lock{starting};
  if (Nic* nic = running.load(std::memory_order_acquire)) return nic;
  if (config().problem) return Error{EINVAL, *config().problem};

  auto frames = FrameMemory::create(wire::UdpWire::kBufferBytes);
  if (!frames) return frames.error();
  auto udp = wire::UdpWire::create((*frames)->bytes());
  if (!udp) return udp.error();
  auto impl = std::make_unique<Impl>(std::move(*frames), std::move(*udp));
  if (auto started = impl->start(); !started) return started.error();

  // The child of a fork() starts afresh: it closes what it inherited and forgets the rest.
  static std::once_flag once;
  std::call_once(once, [] {
    // With the engine's lock held, the child finds nothing half-changed.
    pthread_atfork(
        [] {
          starting.lock();
          if (Nic* nic = running.load()) nic->impl_->engine.lock();
        },
        [] {
          if (Nic* nic = running.load()) nic->impl_->engine.unlock();
          starting.unlock();
        },
        [] {
          if (Nic* parents = running.exchange(nullptr)) {
            parents->impl_->abandon();
            parents->impl_->engine.unlock();
          }
          starting.unlock();
        });
  });
  Nic* const nic = new Nic{std::move(impl)};  // lives as long as its thread: to the end
  running.store(nic, std::memory_order_release);
  return nic;
}

// ---- set-up

Result<engine::PdId> Nic::alloc_pd() {
  return impl_->locked([&] { return impl_->rnic.alloc_pd(); });
}

Status Nic::dealloc_pd(engine::PdId pd) {
  return impl_->locked([&] { return impl_->rnic.dealloc_pd(pd); });
}

Result<engine::MemoryRegion> Nic::register_memory(engine::PdId pd, engine::Segment memory,
                                                  std::uint64_t iova, unsigned access) {
  if (auto ready = prepare_memory(memory, (access & engine::Access::kLocalWrite) != 0); !ready) {
    return ready.error();
  }
  return impl_->locked([&] { return impl_->rnic.register_memory(pd, memory, iova, access); });
}

Status Nic::deregister_memory(Key key) {
  return impl_->locked([&] { return impl_->rnic.deregister_memory(key); });
}

Result<engine::MemoryRegion> Nic::reregister_memory(Key key, std::optional<engine::PdId> pd,
                                                    std::optional<engine::Segment> memory,
                                                    std::optional<unsigned> access) {
  const auto present = impl_->locked([&]() -> Result<engine::MemoryRegion> {
    const engine::MemoryRegion* found = impl_->rnic.find_region(key);
    if (found == nullptr) return Error{EINVAL, "no such memory region"};
    return *found;
  });
  if (!present) return present;
  const engine::Segment range = memory.value_or(engine::Segment{present->address, present->length});
  const bool write = (access.value_or(present->access) & engine::Access::kLocalWrite) != 0;
  if (auto ready = prepare_memory(range, write); !ready) return ready.error();
  return impl_->locked([&] { return impl_->rnic.reregister_memory(key, pd, memory, access); });
}

Result<Key> Nic::alloc_window(engine::PdId pd, engine::MemoryRegion::Type type) {
  return impl_->locked([&] { return impl_->rnic.alloc_window(pd, type); });
}

Status Nic::dealloc_window(Key key) {
  return impl_->locked([&] { return impl_->rnic.dealloc_window(key); });
}

Result<engine::XrcdId> Nic::open_xrcd() {
  return impl_->locked([&] { return impl_->rnic.open_xrcd(); });
}

Status Nic::close_xrcd(engine::XrcdId xrcd) {
  return impl_->locked([&] { return impl_->rnic.close_xrcd(xrcd); });
}

namespace {

Status check_entries(std::uint32_t entries) {
  if (entries > 0 && entries <= engine::Limits::kMaxCompletions) return Ok{};
  return Error{EINVAL, fmt::format("{} entries; a completion queue has 1 to {}", entries,
                                   engine::Limits::kMaxCompletions)};
}

}  // namespace

Status Nic::resize_cq(CompletionQueue& cq, std::uint32_t entries) {
  if (auto legal = check_entries(entries); !legal) return legal;
  return impl_->locked([&]() -> Status {
    const std::lock_guard polling{cq.polling};
    if (cq.ring.resize(entries)) return Ok{};
    return Error{EINVAL, fmt::format("more than {} completions wait in it", entries)};
  });
}

Result<CompletionQueue*> Nic::create_cq(std::uint32_t entries, CompletionChannel* channel,
                                        EventSource events) {
  if (auto legal = check_entries(entries); !legal) return legal.error();
  return new CompletionQueue{entries, channel, events};
}

Nic::Unacknowledged Nic::silence(CompletionQueue& cq) {
  return impl_->locked([&] {
    return Unacknowledged{.completions = cq.channel != nullptr ? cq.channel->forget(cq) : 0,
                          .asynchronous = host::silence(cq.events)};
  });
}

Status Nic::destroy_cq(CompletionQueue* cq) {
  return impl_->locked([&]() -> Status {
    if (cq->ring.users != 0) {
      return Error{EBUSY, fmt::format("{} queues still complete into it", cq->ring.users)};
    }
    if (cq->channel != nullptr) cq->channel->forget(*cq);
    host::silence(cq->events);
    delete cq;
    return Ok{};
  });
}

Result<SharedReceiveQueue*> Nic::create_srq(engine::SrqInit init, EventSource events) {
  auto srq = std::make_unique<SharedReceiveQueue>();
  srq->events = events;
  init.cookie = srq.get();
  const auto queue = impl_->locked([&] { return impl_->rnic.create_srq(init); });
  if (!queue) return queue.error();
  srq->queue = *queue;
  return srq.release();
}

Status Nic::set_srq_limit(SharedReceiveQueue& srq, std::uint32_t limit) {
  return impl_->locked([&] { return impl_->rnic.set_srq_limit(*srq.queue, limit); });
}

std::uint32_t Nic::srq_limit(const SharedReceiveQueue& srq) {
  return impl_->locked([&] { return srq.queue->limit; });
}

Result<unsigned> Nic::destroy_srq(SharedReceiveQueue* srq) {
  return impl_->locked([&]() -> Result<unsigned> {
    if (auto destroyed = impl_->rnic.destroy_srq(*srq->queue); !destroyed) {
      return destroyed.error();
    }
    const unsigned taken = host::silence(srq->events);
    delete srq;
    return taken;
  });
}

Result<QueuePair*> Nic::create_qp(engine::QpInit init, EventSource events) {
  auto qp = std::make_unique<QueuePair>();
  qp->events = events;
  init.cookie = qp.get();
  const auto pair = impl_->locked([&] { return impl_->rnic.create_qp(init); });
  if (!pair) return pair.error();
  qp->pair = *pair;
  return qp.release();
}

Status Nic::modify_qp(QueuePair& qp, const Device& device, engine::QpAttributes attributes,
                      unsigned mask) {
  engine::QueuePair& pair = *qp.pair;
  const auto named = [&](const Error& e) {
    return Error{e.code, fmt::format("qp {:#x}: {}", pair.qpn.value(), e.message)};
  };
  return impl_->locked([&]() -> Status {
    if ((mask & engine::Attr::kPathMtu) != 0 && attributes.path_mtu > device.active_mtu()) {
      return named({EINVAL, fmt::format("path_mtu {} exceeds active_mtu {} of port 1 (device {}, "
                                        "interface mtu {}); use a smaller one or raise the "
                                        "interface mtu",
                                        attributes.path_mtu, device.active_mtu(), device.name,
                                        device.interface_mtu)});
    }
    // Nothing is opened for a call that will be refused.
    if (auto legal = check_transition(pair.type, pair.state.load(), attributes, mask); !legal) {
      return named(legal.error());
    }
    if ((mask & engine::Attr::kPath) != 0) {
      if (auto opened = impl_->open_path(device, pair, attributes); !opened) {
        return named(opened.error());
      }
    }
    const bool to_rtr =
        (mask & engine::Attr::kState) != 0 && attributes.state == engine::QpState::rtr;
    if (to_rtr && pair.type == engine::QpType::ud) {
      if (auto opened = impl_->open_datagrams(device, qp); !opened) return named(opened.error());
      pair.attributes.path_mtu = device.active_mtu();  // C9-171: a datagram is one packet
    }
    if (auto modified = impl_->rnic.modify_qp(pair, attributes, mask); !modified) return modified;
    if (pair.state.load() == engine::QpState::reset) {
      Impl::discard_completions(pair.qpn, std::array{pair.send_cq, pair.receive_cq});
    }
    return Ok{};
  });
}

engine::QpAttributes Nic::query_qp(const QueuePair& qp) {
  return impl_->locked([&] {
    engine::QpAttributes a = qp.pair->attributes;
    a.state = a.current_state = qp.pair->state.load();
    a.draining = a.state == engine::QpState::sqd && !engine::drained(*qp.pair);
    return a;
  });
}

Result<unsigned> Nic::destroy_qp(QueuePair* qp) {
  return impl_->locked([&]() -> Result<unsigned> {
    impl_->leave_groups(*qp);
    if (auto destroyed = impl_->destroy_qp(*qp->pair); !destroyed) return destroyed.error();
    const unsigned taken = host::silence(qp->events);
    delete qp;
    return taken;
  });
}

Result<packet::Flow> Nic::resolve(const Device& device, const engine::AddressVector& path) {
  return impl_->locked([&] { return impl_->open_flow(device, path); });
}

Status Nic::attach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  return impl_->locked([&] { return impl_->attach_multicast(qp, device, gid); });
}

Status Nic::detach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  return impl_->locked([&] { return impl_->detach_multicast(qp, device, gid); });
}

// ---- connections

Status Nic::open_address(const Device& device, const IpAddress& address) {
  return impl_->locked([&] { return impl_->wire().open_address(address, device.interface_index); });
}

Result<wire::BoundPort> Nic::bind_port(const wire::PortBinding& binding) {
  return impl_->locked([&] { return impl_->wire().bind_port(binding); });
}

Status Nic::listen_port(wire::PortId port) {
  return impl_->locked([&] { return impl_->wire().listen_port(port); });
}

void Nic::release_port(wire::PortId port) {
  impl_->locked([&] {
    impl_->wire().release_port(port);
    return true;
  });
}

void Nic::manage(const std::function<void(cm::ConnectionManager&, Instant)>& f) {
  impl_->locked([&] {
    f(impl_->manager, now());
    return true;
  });
}

std::vector<cm::Event> Nic::take_connection_events() { return impl_->take_connection_events(); }

void Nic::observe_connections(ConnectionObserver* observer) { impl_->observe(observer); }

// ---- the data path

engine::PostResult Nic::post_send(QueuePair& qp, engine::SendRequest r) {
  const bool sends = qp.pair->state.load(std::memory_order_relaxed) >= engine::QpState::rts;
  if (qp.pair->type == engine::QpType::ud && sends) {
    packet::Flow& flow = r.destination.flow;
    flow.source_port = qp.ports.at(flow.source);
    if (flow.source_port == 0) return engine::PostResult::bad_request;
  }
  return impl_->rnic.post_send(*qp.pair, r);
}

engine::PostResult Nic::post_receive(QueuePair& qp, const engine::ReceiveRequest& r) {
  return impl_->rnic.post_receive(*qp.pair, r);
}

engine::PostResult Nic::post_receive(SharedReceiveQueue& srq, const engine::ReceiveRequest& r) {
  return engine::Rnic::post_receive(*srq.queue, r);
}

void Nic::kick() { impl_->send_inline(); }

void Nic::arm(CompletionQueue& cq, bool solicited_only) {
  cq.ring.arm(solicited_only);
  impl_->expect_sleep();
}

std::size_t Nic::poll(CompletionQueue& cq, std::span<engine::Completion> out) {
  const auto take = [&] {
    const std::lock_guard lock{cq.polling};
    return cq.ring.poll(out);
  };
  std::size_t n = take();
  if (n == 0) {
    impl_->progress_inline();
    n = take();
  }
  if (n > 0) {
    cq.vain_polls.store(0, std::memory_order_relaxed);
  } else if (cq.vain_polls.fetch_add(1, std::memory_order_relaxed) >= kPatience) {
    // Whoever we wait for may be waiting for this core.
    sched_yield();
  }
  return n;
}

}  // namespace verbena::host
