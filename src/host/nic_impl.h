#pragma once

// What is behind host/nic.h: the engine and the wire, and how progress is made on them. Of nic*.cc
// alone.

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "cm/connection_manager.h"
#include "host/clock.h"
#include "host/connections/gsi.h"
#include "host/connections/waiting_requests.h"
#include "host/crowd.h"
#include "host/devices/device_monitor.h"
#include "host/frame_memory.h"
#include "host/log.h"
#include "host/nic.h"
#include "host/nic_thread.h"
#include "host/no_cancellation.h"
#include "host/observation/outputs.h"
#include "host/raw_packets/raw_ports.h"
#include "host/reachability/everywhere.h"
#include "host/system_entropy.h"
#include "packet/bth.h"
#include "packet/mad.h"
#include "wire/udp_wire.h"

namespace verbena::host {

/// Events that the program took; there will be no more.
inline unsigned silence(EventSource& source) {
  return source.channel != nullptr ? source.channel->forget(source) : 0;
}

/// Everything but `monitor` and `queue_pairs` belongs to whoever holds `engine`.
class Nic::Impl final : wire::DatagramSink, RawPorts::Taker, NicThread::Work {
 public:
  const std::unique_ptr<DeviceMonitor> monitor;  // has a lock of its own
  Crowd queue_pairs;

  Impl(std::unique_ptr<FrameMemory> frames, std::unique_ptr<wire::UdpWire> udp,
       std::unique_ptr<DeviceMonitor> devices, Outputs outputs)
      : monitor{std::move(devices)},
        frames_{std::move(frames)},
        outputs_{std::move(outputs)},
        wire_{std::move(udp)},
        raw{frames_->bytes().subspan(wire::UdpWire::kBufferBytes),
            [this](int fd) { return thread_.watch_data(fd); }},
        rnic{wire_->slot(), *frames_, entropy_},
        manager{{.slot = wire_->slot()}, entropy_},
        thread_{*this} {
    rnic.observe(outputs_.trace());
    rnic.set_ethernet(&raw);
    monitor->on_change([this] {
      devices_changed_.store(true);
      thread_.wake_by(now());
    });
  }

  Status start() {
    const std::array control{wire_->control_fd(), monitor->fd()};
    return thread_.start(wire_->data_fd(), control);
  }

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

  /// A program's thread, after posting: what it posted leaves with more, by its next call. Only
  /// where the peer is busy with earlier requests, a poller is at work, and the NIC thread looks
  /// soon: see decision 013.
  [[nodiscard]] bool posts_may_wait(QueuePair& qp) {
    constexpr std::uint64_t kBusyWith = 8;  // requests
    constexpr std::uint64_t kMost = 16;     // of them wait
    const engine::SendQueue& queue = qp.pair->sq;
    const std::uint64_t tail = queue.tail();
    const std::uint64_t kicked = qp.kicked.load(std::memory_order_relaxed);
    const bool busy = tail - queue.head() > kBusyWith && tail - kicked < kMost;
    if (busy && thread_.will_look()) return true;
    qp.kicked.store(tail, std::memory_order_relaxed);
    return false;
  }

  /// A program's thread that polled this queue in vain.
  void progress_inline(const engine::CompletionQueue& polled) {
    {
      const NoCancellation shield;
      std::unique_lock lock{engine, std::try_to_lock};
      if (!lock) return;
      step(Receive::yes);
      thread_.polled(now_, !polled.armed());  // who asked for an event goes to sleep
      settle(lock);
    }
    tell_observer(ConnectionObserver::Wait::no);
    send_inline();
  }

  /// A program's thread whose poll was not in vain.
  void found() { thread_.found(); }

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

  /// With the lock. A message to a process that has just joined may come back into our own socket,
  /// because the steering program doesn't know the newcomer yet; we hand it over. The program may
  /// end right after this, and nobody could then.
  void send_and_sort() {
    step(Receive::no);
    for (int i = 0; i < kRounds && step(Receive::yes); ++i) {
    }
  }

  /// The last thing that the process does, where the lock comes free in time. False: it doesn't.
  template <typename F>
  bool locked_within(Duration patience, F&& f) {
    const NoCancellation shield;
    const Instant end = now() + patience;
    std::unique_lock lock{engine, std::try_to_lock};
    while (!lock && now() < end) {
      std::this_thread::sleep_for(kBusy);
      static_cast<void>(lock.try_lock());
    }
    if (!lock) return false;
    f();
    send_and_sort();
    rnic.hurry_answers();
    while (step(Receive::no) && now() < end) {  // a round serves a few queue pairs
    }
    settle(lock);
    return true;
  }

  /// At the end of the process, which takes its NIC with it. Frames that faults delay are on their
  /// way already, as far as a peer can tell: they arrive.
  void finish() {
    Instant last{};
    const auto look = [&] { last = wire_->empty_at(); };
    if (!locked_within(kFarewell, look)) return;
    // Sleeping may have taken longer, and what left may have made room; but what is sent meanwhile
    // (retransmissions never end) needn't be waited for.
    const Instant end = last + kFarewell;
    while (last > now() && now() < end) {
      std::this_thread::sleep_for(std::min(last, end) - now());
      if (!locked_within(kFarewell, look)) return;
    }
  }
  /// What the program was told of, its peers hear of, too.
  void last_words() {
    locked_within(kFarewell, [] {});
  }
  /// After finish().
  void report() {
    locked_within(kFarewell, [&] {
      if (Trace* trace = outputs_.trace()) trace->write();
      if (outputs_.wants_statistics()) outputs_.report(statistics());
    });
  }
  /// Of a device, by the NIC's own count.
  [[nodiscard]] Statistics::Port port_statistics(const Device& device);

  [[nodiscard]] wire::UdpWire& wire() { return *wire_; }
  [[nodiscard]] Outputs& outputs() { return outputs_; }

  std::vector<cm::Event> take_connection_events() {
    const NoCancellation shield;
    const std::lock_guard lock{engine};
    connection_events_.store(false, std::memory_order_relaxed);
    return std::exchange(manager.events(), {});
  }
  void observe(ConnectionObserver* observer) { observer_.store(observer); }

  Status destroy_qp(QueuePair& qp) {
    engine::QueuePair& pair = *qp.pair;
    const std::array rings{pair.send_cq, pair.receive_cq};
    const Qpn qpn = pair.qpn;
    PairRecords& records = outputs_.pairs();
    std::optional<Statistics::Pair> record;
    if (records.lists_more()) record = pair_of(qp);
    engine::Counters last;
    if (auto destroyed = rnic.destroy_qp(pair, *wire_, &last); !destroyed) return destroyed;
    records.add(qp.device, last);
    if (record) {
      record->counters = last;
      records.list(std::move(*record));
    }
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
  Status open_address(const IpAddress& address, unsigned interface);
  /// The flow but for its source port; its source address is open afterwards.
  Result<packet::Flow> open_flow(const Device& device, const engine::AddressVector& path);
  Status open_path(const Device& device, const engine::QueuePair& qp, engine::QpAttributes& a);
  Status open_datagrams(const Device& device, QueuePair& qp);
  /// All addresses of this family, now and later.
  Status open_everywhere(wire::Family family);
  void forget(const QueuePair& qp) { everywhere_.remove(qp); }
  Status attach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid);
  Status detach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid);
  void leave_groups(QueuePair& qp) {
    for (const Membership& m : qp.groups) wire_->leave(m.group, m.interface);
    qp.groups.clear();
  }

  void abandon() {
    rnic.observe(nullptr);
    outputs_.abandon();
    wire_->abandon();
    raw.abandon();
    frames_->abandon();
    monitor->abandon();
    thread_.abandon();
  }

 private:
  /// Rounds of receive and send that the NIC thread does before it lets go of the lock.
  static constexpr int kRounds = 4;
  /// When the NIC thread looks again at an engine that somebody else had.
  static constexpr Duration kBusy = std::chrono::microseconds{50};
  /// What the last words may wait for the engine. exit() may have been called by a signal handler,
  /// on a thread that has it.
  static constexpr Duration kFarewell = std::chrono::milliseconds{20};
  /// Full sockets say when they have room again; this is only in case they don't.
  static constexpr Duration kFull = std::chrono::milliseconds{1};

  enum class Receive : bool { no, yes };

  /// With the lock.
  [[nodiscard]] Statistics statistics() const;

  Status open_for_listeners(const std::vector<Device>& devices, LogLevel level);
  /// Devices have changed: whoever is reached everywhere is reached at new addresses, too.
  void follow_devices();

  /// The host's part of what an event is about.
  static EventSource& source_of(const engine::Event& e) {
    if (e.qp != nullptr) return static_cast<QueuePair*>(e.qp->cookie)->events;
    if (e.srq != nullptr) return static_cast<SharedReceiveQueue*>(e.srq->cookie)->events;
    return static_cast<CompletionQueue*>(e.cq->cookie())->events;
  }

  /// One round. True: there was something, so there may be more. Without memory it ends where it
  /// is, and what is left is done a little later: the engine itself needs none, and what the
  /// connection manager can't take its peers send again.
  bool step(Receive receive) {
    try {
      return try_step(receive);
    } catch (const std::bad_alloc&) {
      blocked_ = true;
      return false;
    }
  }
  bool try_step(Receive receive) {
    now_ = now();
    if (devices_changed_.load(std::memory_order_relaxed)) follow_devices();
    received_ = receive == Receive::yes && wire_->receive(*this) > 0;
    if (receive == Receive::yes && raw.receive(*this)) received_ = true;
    blocked_ = !rnic.work(*wire_, now_);
    if (waiting_.next_look() <= now_) look_for_listeners();
    if (manager.next_deadline() <= now_) manager.expire(now_);
    if (!manager.outbox().empty()) send_messages();
    if (!manager.events().empty()) connection_events_.store(true, std::memory_order_relaxed);
    wire_->flush();
    for (engine::CompletionQueue* ring : rnic.notifications()) {
      auto* cq = static_cast<CompletionQueue*>(ring->cookie());
      if (cq->channel == nullptr) continue;
      cq->channel->raise(*cq);
      woke_ = true;
    }
    rnic.notifications().clear();
    for (const engine::Event& e : rnic.events()) {
      EventSource& source = source_of(e);
      if (source.channel == nullptr) continue;
      source.channel->raise({static_cast<std::uint8_t>(e.kind), &source});
    }
    rnic.events().clear();
    if (wire_->counters().send_errors != send_errors_) report_send_error();
    outputs_.after_step(*wire_);
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
      const auto port = wire_->management_port(mad.route.local);
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
    const Instant deadline = std::min({rnic.next_deadline(), manager.next_deadline(),
                                       waiting_.next_look(), wire_->next_deadline()});
    if (blocked_) return std::min(now_ + kFull, deadline);
    if (rnic.has_work()) return now_;
    return deadline;
  }

  // wire::DatagramSink
  void datagram(const packet::Datagram& d) override {
    if (d.bytes.size() >= packet::Bth::kSize &&
        Qpn{load_be24(&d.bytes[packet::kDestinationQpn])} == packet::kGsiQpn) {
      if (!wire_->nobody_listens(d) || !wait_for_listener(d)) manage_datagram(d);
      return;
    }
    rnic.receive(d, now_);
  }
  void no_more() override { rnic.settle(); }
  [[nodiscard]] std::string account() override;
  void undelivered(const wire::Undelivered& u) override {
    const packet::Datagram back{.source = u.destination, .destination = u.source, .bytes = u.bytes};
    if (const auto mad = mad_of(back)) manager.undelivered(*mad, u.code, now_);
  }
  void manage_datagram(const packet::Datagram& d) {
    auto mad = mad_of(d);
    if (!mad) return;
    mad->orphaned = wire_->owner_is_dead(d);
    manager.receive(*mad, now_);
  }
  bool wait_for_listener(const packet::Datagram& d) {
    return waiting_.add(
        d, now_,
        wire_->is_bound(d) ? WaitingRequests::kPatienceIfBound : WaitingRequests::kPatience);
  }
  void look_for_listeners() {
    waiting_.look(now_, [this](const packet::Datagram& d, bool last) {
      if (wire_->pass_to_listener(d)) return true;
      if (wire_->nobody_listens(d) && !last) return false;
      manage_datagram(d);
      return true;
    });
  }

  // RawPorts::Taker
  void frame(engine::QueuePair& qp, std::span<const std::uint8_t> bytes) override {
    rnic.receive_frame(qp, bytes, now_);
  }

  // NicThread::Work
  Outcome work(bool control) override {
    try {
      return try_work(control);
    } catch (const std::bad_alloc&) {
      return {now() + kFull, false, false};
    }
  }
  Outcome try_work(bool control) {
    std::unique_lock lock{engine, std::defer_lock};
    if (control) {
      monitor->serve();
      lock.lock();
    } else if (!lock.try_lock()) {
      return {now() + kBusy, false, false};  // a program's thread is at it
    }
    now_ = now();
    woke_ = false;
    if (control) wire_->serve_control(*this);
    bool useful = false;
    for (int i = 0; i < kRounds && step(Receive::yes); ++i) useful = useful || received_;
    const Work::Outcome outcome{wake_at(), useful, woke_};
    lock.unlock();
    tell_observer(ConnectionObserver::Wait::yes);
    send_inline();
    return outcome;
  }

  std::unique_ptr<FrameMemory> frames_;
  Outputs outputs_;
  SystemEntropy entropy_;
  std::unique_ptr<wire::UdpWire> wire_;
  Instant now_ = now();
  bool received_ = false;  // by the last step
  bool woke_ = false;      // who waits for a completion, since the NIC thread began
  bool blocked_ = false;
  std::uint64_t send_errors_ = 0;
  std::string reported_;  // the last of them
  Gsi gsi_;
  WaitingRequests waiting_;
  Everywhere everywhere_;
  std::atomic<bool> devices_changed_{false};
  std::atomic<bool> connection_events_{false};
  std::atomic<ConnectionObserver*> observer_{nullptr};

 public:
  std::mutex engine;
  RawPorts raw;
  engine::Rnic rnic;
  cm::ConnectionManager manager;
  std::uint64_t next_pair = 0;  // number of the next queue pair

 private:
  NicThread thread_;
};

}  // namespace verbena::host
