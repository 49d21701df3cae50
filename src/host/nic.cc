#include "host/nic.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "host/clock.h"
#include "host/config.h"
#include "host/frame_memory.h"
#include "host/log.h"
#include "host/nic_thread.h"
#include "host/program_memory.h"
#include "host/system_entropy.h"
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

/// Everything behind `engine` belongs to whoever holds it.
class Nic::Impl final : wire::DatagramSink, NicThread::Work {
 public:
  Impl(std::unique_ptr<FrameMemory> frames, std::unique_ptr<wire::UdpWire> udp)
      : frames_{std::move(frames)},
        wire_{std::move(udp)},
        rnic{wire_->slot(), *frames_, entropy_},
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

  Status destroy_qp(engine::QueuePair& qp) { return rnic.destroy_qp(qp, *wire_); }
  Status open_path(const Device& device, engine::QueuePair& qp, engine::QpAttributes& a);

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
    wire_->flush();
    for (engine::CompletionQueue* ring : rnic.notifications()) {
      auto* cq = static_cast<CompletionQueue*>(ring->cookie());
      if (cq->channel != nullptr) cq->channel->raise(*cq);
    }
    rnic.notifications().clear();
    rnic.events().clear();  // nobody asks for them yet
    return received_ || (rnic.has_work() && !blocked_);
  }

  /// Lets go of the engine, and has the NIC thread do what is left.
  void settle(std::unique_lock<std::mutex>& lock) {
    const Instant deadline = wake_at();
    lock.unlock();
    thread_.wake_by(deadline);
  }

  [[nodiscard]] Instant wake_at() const {
    if (blocked_) return std::min(now_ + kFull, rnic.next_deadline());
    if (rnic.has_work()) return now_;
    return rnic.next_deadline();
  }

  // wire::DatagramSink
  void datagram(const packet::Datagram& d) override { rnic.receive(d, now_); }

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
    send_inline();
    return {deadline, useful};
  }

  std::unique_ptr<FrameMemory> frames_;
  SystemEntropy entropy_;
  std::unique_ptr<wire::UdpWire> wire_;
  Instant now_ = now();
  bool received_ = false;  // by the last step
  bool blocked_ = false;

 public:
  std::mutex engine;
  engine::Rnic rnic;

 private:
  NicThread thread_;
};

Status Nic::Impl::open_path(const Device& device, engine::QueuePair& qp, engine::QpAttributes& a) {
  const engine::AddressVector& path = a.path;
  if (!path.global) {
    return Error{EINVAL, fmt::format("qp {:#x}: the address vector has no GRH (is_global = 0); "
                                     "RoCE needs one: set is_global and sgid_index",
                                     qp.qpn.value())};
  }
  if (path.source_index >= device.gids.size()) {
    return Error{EINVAL,
                 fmt::format("qp {:#x}: sgid_index {}, but {} has GIDs 0 to {}", qp.qpn.value(),
                             path.source_index, device.name, device.gids.size() - 1)};
  }
  const IpAddress source = device.gids[path.source_index];
  if (source.is_v4() != path.destination.is_v4()) {
    return Error{EINVAL, fmt::format("qp {:#x}: GID {} of {} is {}, which can't reach {}: choose a "
                                     "sgid_index of the same family",
                                     qp.qpn.value(), path.source_index, device.name, source.text(),
                                     path.destination.text())};
  }
  if (auto opened = wire_->open_address(source, device.interface_index); !opened) return opened;
  auto port = wire_->source_port(source, qp.qpn);
  if (!port) return port.error();
  a.flow = {.source = source,
            .destination = path.destination,
            .source_port = *port,
            .traffic_class = path.traffic_class,
            .hop_limit = path.hop_limit};
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
                                        void* user) {
  if (auto legal = check_entries(entries); !legal) return legal.error();
  return new CompletionQueue{entries, channel, user};
}

Status Nic::destroy_cq(CompletionQueue* cq) {
  return impl_->locked([&]() -> Status {
    if (cq->ring.users != 0) {
      return Error{EBUSY, fmt::format("{} queues still complete into it", cq->ring.users)};
    }
    if (cq->channel != nullptr) cq->channel->forget(*cq);
    delete cq;
    return Ok{};
  });
}

Result<engine::QueuePair*> Nic::create_qp(const engine::QpInit& init) {
  return impl_->locked([&] { return impl_->rnic.create_qp(init); });
}

Status Nic::modify_qp(engine::QueuePair& qp, const Device& device, engine::QpAttributes attributes,
                      unsigned mask) {
  return impl_->locked([&]() -> Status {
    if ((mask & engine::Attr::kPathMtu) != 0 && attributes.path_mtu > device.active_mtu()) {
      return Error{
          EINVAL, fmt::format("qp {:#x}: path_mtu {} exceeds active_mtu {} of port 1 (device {}, "
                              "interface mtu {}); use a smaller one or raise the interface mtu",
                              qp.qpn.value(), attributes.path_mtu, device.active_mtu(), device.name,
                              device.interface_mtu)};
    }
    if ((mask & engine::Attr::kPath) != 0) {
      // Nothing is opened for a call that will be refused.
      const auto state = qp.state.load();
      if (auto legal = check_transition(qp.type, state, attributes, mask); !legal) return legal;
      if (auto opened = impl_->open_path(device, qp, attributes); !opened) return opened;
    }
    return impl_->rnic.modify_qp(qp, attributes, mask);
  });
}

engine::QpAttributes Nic::query_qp(const engine::QueuePair& qp) {
  return impl_->locked([&] {
    engine::QpAttributes a = qp.attributes;
    a.state = a.current_state = qp.state.load();
    return a;
  });
}

Status Nic::destroy_qp(engine::QueuePair* qp) {
  return impl_->locked([&] { return impl_->destroy_qp(*qp); });
}

// ---- the data path

engine::PostResult Nic::post_send(engine::QueuePair& qp, const engine::SendRequest& r) {
  return impl_->rnic.post_send(qp, r);
}

engine::PostResult Nic::post_receive(engine::QueuePair& qp, const engine::ReceiveRequest& r) {
  return impl_->rnic.post_receive(qp, r);
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
