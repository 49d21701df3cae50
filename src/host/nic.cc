#include "host/nic.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "host/config.h"
#include "host/nic_impl.h"

namespace verbena::host {

// ---- one per process

namespace {

std::mutex starting;
std::atomic<Nic*> running{nullptr};
std::atomic<Nic*> forgotten{nullptr};  // in a child: its parent's, not leaked but left
std::atomic<pid_t> running_in{0};      // a child of vfork() sees its parent's memory

}  // namespace

Nic::Nic(std::unique_ptr<Impl> impl) : impl_{std::move(impl)} {}
Nic::~Nic() = default;

Result<Nic*> Nic::instance() {
  if (Nic* nic = running.load(std::memory_order_acquire)) return nic;
  const std::lock_guard lock{starting};
  if (Nic* nic = running.load(std::memory_order_acquire)) return nic;
  if (config().problem) return Error{EINVAL, *config().problem};

  constexpr std::size_t kUdp = wire::UdpWire::kBufferBytes;
  auto frames = FrameMemory::create(kUdp + RawPorts::kBufferBytes);
  if (!frames) return frames.error();
  auto udp = wire::UdpWire::create((*frames)->bytes().first(kUdp),
                                   {.faults = config().faults, .capture = config().pcap});
  if (!udp) return udp.error();
  auto devices = DeviceMonitor::create();
  if (!devices) return devices.error();
  auto outputs = Outputs::open(config());
  if (!outputs) return outputs.error();
  auto impl = std::make_unique<Impl>(std::move(*frames), std::move(*udp), std::move(*devices),
                                     std::move(outputs).value());
  if (auto started = impl->start(); !started) return started.error();
  impl->outputs().announce(impl->wire());

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
            forgotten.store(parents);
            parents->impl_->abandon();
            parents->impl_->engine.unlock();
          }
          starting.unlock();
        });
  });
  static const int at_exit = std::atexit([] {
    Nic* const nic = running.load();
    if (nic == nullptr) return;
    nic->impl_->finish();
    nic->impl_->report();
  });
  static const int at_quick_exit = std::at_quick_exit(before_sudden_exit);
  static_cast<void>(at_exit);
  static_cast<void>(at_quick_exit);
  running_in.store(getpid());
  Nic* const nic = new Nic{std::move(impl)};  // lives as long as its thread: to the end
  running.store(nic, std::memory_order_release);
  return nic;
}

void Nic::before_sudden_exit() {
  Nic* const nic = running.load();
  if (nic != nullptr && running_in.load() == getpid()) nic->impl_->last_words();
}

// ---- the data path

namespace {

/// Polls in vain before a poller begins to offer its core to others: some 50 µs.
constexpr unsigned kVainPolls = 64;

/// The trace tells of a post once it is taken, with the time of the call: what it leads to may have
/// happened by then.
template <typename Queue, typename Request, typename Post>
engine::PostResult traced(Trace* trace, const Queue& queue, const Request& r, Post&& post) {
  if (trace == nullptr) return post();
  const Instant at = now();
  const engine::PostResult result = post();
  if (result == engine::PostResult::posted) trace->posted(at, queue, r);
  return result;
}

}  // namespace

namespace {

/// The source port of a datagram. False: its source is no address that the queue pair sends from.
bool add_source_port(const QueuePair& qp, engine::SendRequest& r) {
  const bool sends = qp.pair->state.load(std::memory_order_relaxed) >= engine::QpState::rts;
  if (qp.pair->type != engine::QpType::ud || !sends) return true;
  packet::Flow& flow = r.destination.flow;
  flow.source_port = qp.ports ? qp.ports->at(flow.source) : std::uint16_t{0};
  return flow.source_port != 0;
}

}  // namespace

engine::PostResult Nic::stage_send(QueuePair& qp, engine::SendRequest r, std::uint32_t staged) {
  if (!add_source_port(qp, r)) return engine::PostResult::bad_request;
  return engine::Rnic::stage_send(*qp.pair, r, staged);
}

engine::PostResult Nic::publish_sends(QueuePair& qp, std::uint32_t staged) {
  engine::SendQueue& queue = qp.pair->sq;
  if (Trace* trace = impl_->outputs().trace()) {
    const Instant at = now();
    for (std::uint64_t i = queue.tail(); i < queue.tail() + staged; ++i) {
      trace->posted(at, *qp.pair, queue.at(i));
    }
  }
  return impl_->rnic.publish_sends(*qp.pair, staged);
}

engine::PostResult Nic::post_send(QueuePair& qp, engine::SendRequest r) {
  if (!add_source_port(qp, r)) return engine::PostResult::bad_request;
  return traced(impl_->outputs().trace(), *qp.pair, r,
                [&] { return impl_->rnic.post_send(*qp.pair, r); });
}

engine::PostResult Nic::post_receive(QueuePair& qp, const engine::ReceiveRequest& r) {
  return traced(impl_->outputs().trace(), *qp.pair, r,
                [&] { return impl_->rnic.post_receive(*qp.pair, r); });
}

engine::PostResult Nic::post_receive(SharedReceiveQueue& srq, const engine::ReceiveRequest& r) {
  return traced(impl_->outputs().trace(), *srq.queue, r,
                [&] { return engine::Rnic::post_receive(*srq.queue, r); });
}

void Nic::kick(QueuePair& qp) {
  if (!impl_->posts_may_wait(qp)) impl_->send_inline();
}

void Nic::arm(CompletionQueue& cq, bool solicited_only) {
  cq.ring.arm(solicited_only);
  impl_->expect_sleep();
}

std::size_t Nic::take(CompletionQueue& cq, std::span<engine::Completion> out) {
  const std::lock_guard lock{cq.polling};
  return cq.ring.poll(out);
}

std::size_t Nic::poll(CompletionQueue& cq, std::span<engine::Completion> out) {
  std::size_t n = take(cq, out);
  if (n == 0) {
    // Whoever we wait for may be waiting for this core. Only then is looked again: a poll that
    // found nothing must not be old news when it returns, for programs look elsewhere then.
    if (cq.vain_polls.load(std::memory_order_relaxed) >= kVainPolls) sched_yield();
    impl_->progress_inline(cq.ring);
    n = take(cq, out);
  }
  if (n > 0) {
    impl_->found();
    cq.vain_polls.store(0, std::memory_order_relaxed);
  } else {
    cq.vain_polls.fetch_add(1, std::memory_order_relaxed);
  }
  return n;
}

}  // namespace verbena::host
