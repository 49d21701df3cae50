#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cm/event.h"
#include "host/clock.h"
#include "host/connections/connection_observer.h"
#include "host/no_cancellation.h"
#include "host/progress/caller_policy.h"
#include "host/progress/nic_thread.h"
#include "host/queue_pair.h"
#include "host/shard_lock.h"
#include "host/shard_state.h"

namespace verbena::host {

/// An engine with its lock, its wires and its deadlines. Makes progress in rounds of receive and
/// send: inline, on threads of the program that post or poll; and on the NIC thread when they
/// don't.
class Shard final : wire::DatagramSink, registry::Visitors, RawPorts::Taker {
 public:
  /// `thread` is told when the shard has to run next.
  Shard(ShardParts parts, NicThread& thread);

  // ---- Calls on what the lock guards.

  enum class Rounds : bool {
    one,       // sends what there is
    exchange,  // and receives: see exchange()
  };
  /// Runs f(ShardState&) with the lock held, then rounds that send what it left to send.
  template <typename F>
  auto locked(F&& f, Rounds rounds = Rounds::one) EXCLUDES(lock_) {
    if constexpr (std::is_void_v<std::invoke_result_t<F, ShardState&>>) {
      const auto returning = [&](ShardState& state) {
        f(state);
        return Ok{};
      };
      locked(returning, rounds);
    } else {
      const NoCancellation shield;
      ShardLockHolder holder{lock_};
      auto result = f(state_);
      if (rounds == Rounds::exchange) exchange();
      run_round(Receive::no);
      const Instant deadline = wake_at();
      holder.unlock();
      thread_.wake_by(deadline);
      send_inline();
      return result;
    }
  }
  /// Before the process ends: sends everything that may be sent, acknowledgements included. False:
  /// the lock didn't become free within `patience`.
  template <typename F>
  bool locked_within(Duration patience, F&& f) EXCLUDES(lock_) {
    const NoCancellation shield;
    const Instant end = now() + patience;
    if (!lock_within(patience)) return false;
    ShardLockHolder holder{lock_, std::adopt_lock};
    f(state_);
    send_everything(end);
    const Instant deadline = wake_at();
    holder.unlock();
    thread_.wake_by(deadline);
    send_inline();
    return true;
  }
  /// Runs f(ShardState&) with the lock held, and no round.
  template <typename F>
  auto inspect(F&& f) EXCLUDES(lock_) {
    const NoCancellation shield;
    struct Afterwards {
      Shard& shard;
      ~Afterwards() { shard.send_inline(); }
    } const afterwards{*this};
    const ShardLockHolder holder{lock_};
    return f(state_);
  }

  // ---- The data path of the program. Any thread; never waits for the lock.

  /// The engine, for those of its calls that any thread may make.
  [[nodiscard]] engine::Rnic& unlocked_rnic() NO_THREAD_SAFETY_ANALYSIS { return state_.rnic; }
  /// nullptr: not wanted.
  [[nodiscard]] Trace* trace() const { return trace_; }
  /// After posting: what was posted may leave with more, by the next call (decision 013).
  [[nodiscard]] bool posts_may_wait(QueuePair& qp);
  /// After posting: sends, unless somebody else has the lock. Everybody who has had the lock calls
  /// it then, for posts that came meanwhile.
  void send_inline() EXCLUDES(lock_);
  /// After polling this queue in vain: receives and sends, if the lock is free. Returns the time.
  Instant progress_inline(const engine::CompletionQueue& polled) EXCLUDES(lock_);

  /// Receives and sends, before and after a thread of the program sleeps for rings.
  [[nodiscard]] NicThread::Work::Outcome serve_rings() EXCLUDES(lock_);

  // ---- The NIC thread.

  /// `control`: a control descriptor is readable.
  [[nodiscard]] NicThread::Work::Outcome run(bool control) EXCLUDES(lock_);
  /// See NicThread::Work. False while somebody else has the lock, and sees to it.
  [[nodiscard]] bool arrived() EXCLUDES(lock_);
  /// False also when a post has met with our lock.
  [[nodiscard]] bool may_sleep() EXCLUDES(lock_);

  // ---- Any thread.

  void devices_changed();  // the next round looks at them
  void observe(ConnectionObserver* observer) { notifier_.observe(observer); }
  [[nodiscard]] std::vector<cm::Event> take_connection_events() EXCLUDES(lock_);

  // ---- Around fork().
  void lock_for_fork();
  void unlock_after_fork();
  void abandon();  // in the child, before it unlocks: closes what it inherited

 private:
  enum class Receive : std::uint8_t {
    no,
    yes,
    often,  // it soon comes again
    rings,  // from processes of this host
  };

  /// Rounds of receive and send before the lock is given up.
  static constexpr int kRounds = 4;
  /// When to try again to get a lock that somebody else has.
  static constexpr Duration kLockPause = std::chrono::microseconds{50};
  /// When to try again after a lack of memory, or of room in a socket that doesn't tell.
  static constexpr Duration kBlockedPause = std::chrono::milliseconds{1};

  /// One round. True: there was something to do, so there may be more. Without memory it ends where
  /// it is, and the rest is done later: the engine itself needs none, and peers retry what the
  /// connection manager couldn't take.
  bool run_round(Receive receive) REQUIRES(lock_);
  bool try_round(Receive receive) REQUIRES(lock_);
  bool receive(Receive what) REQUIRES(lock_);
  /// Sends, and receives as long as something comes. A message to a process that has just joined
  /// may come back into our own socket, because the steering program doesn't know it yet; receiving
  /// hands it over. The program may end right after its call, and nobody could then.
  void exchange() REQUIRES(lock_);
  void send_everything(Instant end) REQUIRES(lock_);
  /// Without memory, the next round tries again.
  void follow_devices() REQUIRES(lock_);
  void raise_events() REQUIRES(lock_);
  [[nodiscard]] NicThread::Work::Outcome run_rounds(bool control) REQUIRES(lock_);
  /// When the shard has to run next.
  [[nodiscard]] Instant wake_at() const REQUIRES(lock_);
  [[nodiscard]] bool lock_within(Duration patience) TRY_ACQUIRE(true, lock_);
  void notify_observer(ConnectionObserver::Wait wait) EXCLUDES(lock_);
  [[nodiscard]] bool is_quiet() REQUIRES(lock_);  // a round would find nothing to do, it seems
  // wire::DatagramSink
  void datagram(const packet::Datagram& d) override REQUIRES(lock_) {
    state_.rnic.receive(d, now_);
  }
  void management(const packet::Datagram& d) override REQUIRES(lock_) {
    state_.connections.receive(d, now_);
  }
  void no_more() override REQUIRES(lock_) { state_.rnic.finish_copies(); }
  bool is_copying() const override REQUIRES(lock_) { return state_.rnic.is_copying(); }
  void undelivered(const wire::Undelivered& u) override REQUIRES(lock_) {
    state_.connections.undelivered(u, now_);
  }
  void rings_lost(std::uint32_t slot) override REQUIRES(lock_) {
    state_.rnic.rings_lost(slot, now_);
  }
  // registry::Visitors
  void message(const registry::PeerMessage& message) override REQUIRES(lock_) {
    state_.wires->message(message, *this);
  }
  [[nodiscard]] registry::Account account(std::uint32_t queue_pairs) override REQUIRES(lock_);
  // RawPorts::Taker
  void frame(engine::QueuePair& qp, std::span<const std::uint8_t> bytes) override REQUIRES(lock_) {
    state_.rnic.receive_frame(qp, bytes, now_);
  }

  ShardLock lock_;
  ShardState state_ GUARDED_BY(lock_);
  Instant now_ GUARDED_BY(lock_) = now();         // the present round began
  bool received_ GUARDED_BY(lock_) = false;       // by the last round
  bool woke_sleeper_ GUARDED_BY(lock_) = false;   // since the NIC thread began
  bool blocked_ GUARDED_BY(lock_) = false;        // the engine: by full paths, or a lack of memory
  unsigned glances_ GUARDED_BY(lock_) = 0;        // in vain, since the last round
  bool messages_wait_ GUARDED_BY(lock_) = false;  // of the connection service, for a full path
  std::atomic<bool> devices_changed_{false};
  ConnectionNotifier notifier_;
  Trace* trace_;  // nullptr: not wanted
  NicThread& thread_;
};

}  // namespace verbena::host
