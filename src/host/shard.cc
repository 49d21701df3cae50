#include "host/shard.h"

#include <algorithm>
#include <new>

#include "host/completion_queue.h"
#include "host/log.h"
#include "host/shutdown/bounded_wait.h"
#include "memory/fault_handler.h"

namespace verbena::host {

Shard::Shard(ShardParts parts, NicThread& thread)
    : state_{std::move(parts), [&thread](int fd) { return thread.watch_data(fd); }},
      trace_{state_.outputs.trace()},
      thread_{thread} {}

// ---- rounds

bool Shard::run_round(Receive receive) {
  try {
    return try_round(receive);
  } catch (const std::bad_alloc&) {
    blocked_ = true;
    return false;
  }
}

bool Shard::receive(Receive what) {
  if (what == Receive::rings) return state_.wires->receive_rings(*this);
  const bool frames = what == Receive::often ? state_.wires->receive_often(*this, now_)
                                             : state_.wires->receive(*this);
  return state_.raw.receive(*this) || frames;
}

bool Shard::try_round(Receive receive) {
  now_ = now();
  glances_ = 0;
  memory::check_fault_handlers(now_);
  if (devices_changed_.load(std::memory_order_relaxed)) follow_devices();
  received_ = receive != Receive::no && this->receive(receive);
  blocked_ = !state_.rnic.work(*state_.wires, now_);
  messages_wait_ = !state_.connections.work(now_, receive == Receive::yes && !received_);
  if (!state_.connections.manager().events().empty()) notifier_.set_pending(true);
  state_.wires->flush();
  raise_events();
  if (const std::string* error = state_.wires->new_send_error()) log(LogLevel::warn, "{}", *error);
  state_.outputs.after_round(*state_.wires);
  return received_ || (state_.rnic.has_work() && !blocked_);
}

void Shard::raise_events() {
  for (engine::CompletionQueue* ring : state_.rnic.notifications()) {
    CompletionQueue& cq = host_of(*ring);
    if (cq.channel == nullptr) continue;
    cq.channel->raise(cq);
    woke_sleeper_ = true;
  }
  state_.rnic.notifications().clear();
  for (const engine::Event& e : state_.rnic.events()) {
    EventSource* const source = source_of(e);
    if (source == nullptr || source->listener == nullptr) continue;
    source->listener->raise({static_cast<std::uint8_t>(e.kind), source});
  }
  state_.rnic.events().clear();
}

void Shard::follow_devices() try {
  devices_changed_.store(false);
  state_.reachability.follow_devices();
} catch (const std::bad_alloc&) {
  devices_changed_.store(true);
  throw;
}

void Shard::exchange() {
  run_round(Receive::no);
  for (int i = 0; i < kRounds && run_round(Receive::yes); ++i) {
  }
}

void Shard::send_everything(Instant end) {
  exchange();
  state_.rnic.send_delayed_acks();
  while (run_round(Receive::no) && now() < end) {  // a round serves a few queue pairs
  }
}

Instant Shard::wake_at() const {
  if (!thread_.wants_deadline()) return kNever;
  const Instant deadline =
      std::min({state_.rnic.next_deadline(), state_.connections.next_deadline(),
                state_.wires->next_deadline()});
  if (!blocked_ && state_.rnic.has_work()) return now_;
  if (blocked_ || messages_wait_) return std::min(now_ + kBlockedPause, deadline);
  return deadline;
}

bool Shard::lock_within(Duration patience) NO_THREAD_SAFETY_ANALYSIS {
  return wait_within(patience, [&] { return lock_.try_lock(); });
}

// ---- threads of the program

bool Shard::posts_may_wait(QueuePair& qp) {
  const engine::SendQueue& queue = qp.sq;
  const std::uint64_t tail = queue.tail();
  const std::uint64_t kicked = qp.kicked.load(std::memory_order_relaxed);
  const PostedRequests posted{.unfinished = tail - queue.head(), .waiting = tail - kicked};
  if (host::posts_may_wait(posted) && thread_.will_look()) return true;
  qp.kicked.store(tail, std::memory_order_relaxed);
  return false;
}

void Shard::send_inline() {
  // Whoever has the lock calls this after releasing it, so a failed try loses nothing.
  if (!unlocked_rnic().has_doorbells()) return;
  const NoCancellation shield;
  while (unlocked_rnic().has_doorbells()) {
    if (!lock_.try_lock()) return;
    ShardLockHolder holder{lock_, std::adopt_lock};
    run_round(Receive::no);
    const Instant deadline = wake_at();
    holder.unlock();
    thread_.wake_by(deadline);
    notify_observer(ConnectionObserver::Wait::no);
  }
}

bool Shard::is_quiet() {
  constexpr unsigned kGlances = 8;
  return state_.wires->quiet() && !state_.rnic.has_work() && !messages_wait_ &&
         ++glances_ < kGlances;
}

Instant Shard::progress_inline(const engine::CompletionQueue& polled) {
  Instant when;
  if (!lock_.try_lock()) return now();
  {
    ShardLockHolder holder{lock_, std::adopt_lock};
    const bool quiet = is_quiet();
    if (!quiet) {
      const NoCancellation shield;
      run_round(Receive::often);
    }
    when = quiet ? now() : now_;
    thread_.polled(when, !polled.armed());  // a program that asked for an event goes to sleep
    const Instant deadline = quiet ? kNever : wake_at();
    holder.unlock();
    thread_.wake_by(deadline);
  }
  notify_observer(ConnectionObserver::Wait::no);
  send_inline();
  return when;
}

NicThread::Work::Outcome Shard::serve_rings() {
  NicThread::Work::Outcome outcome;
  {
    const NoCancellation shield;
    const ShardLockHolder holder{lock_};
    state_.wires->woken();
    state_.rnic.set_caller_takes_events(true);
    for (int i = 0; i < kRounds && run_round(Receive::rings); ++i) {
      outcome.useful = outcome.useful || received_;
    }
    state_.rnic.set_caller_takes_events(false);
    outcome.deadline = wake_at();
  }
  notify_observer(ConnectionObserver::Wait::no);
  send_inline();
  return outcome;
}

void Shard::notify_observer(ConnectionObserver::Wait wait) {
  // A thread of the program doesn't wait for the observer's lock: the NIC thread does.
  if (!notifier_.pending()) return;
  const NoCancellation shield;
  if (!notifier_.notify(wait)) thread_.wake_by(now());
}

std::vector<cm::Event> Shard::take_connection_events() {
  return inspect([this](ShardState& state) {
    notifier_.set_pending(false);
    return std::exchange(state.connections.manager().events(), {});
  });
}

void Shard::devices_changed() {
  devices_changed_.store(true);
  thread_.wake_by(now());
}

// ---- the NIC thread

NicThread::Work::Outcome Shard::run(bool control) {
  if (control) {
    lock_.lock();
  } else if (!lock_.try_lock()) {
    return {now() + kLockPause, false, false};  // a thread of the program makes progress
  }
  ShardLockHolder holder{lock_, std::adopt_lock};
  const NicThread::Work::Outcome outcome = run_rounds(control);
  holder.unlock();
  notify_observer(ConnectionObserver::Wait::yes);
  send_inline();
  return outcome;
}

bool Shard::arrived() {
  if (!lock_.try_lock()) return false;
  ShardLockHolder holder{lock_, std::adopt_lock};
  const bool something = state_.wires->arrived();
  holder.unlock();
  return something || unlocked_rnic().has_doorbells();
}

bool Shard::may_sleep() {
  if (!lock_.try_lock()) return false;
  ShardLockHolder holder{lock_, std::adopt_lock};
  const bool may = state_.wires->may_sleep();
  holder.unlock();
  return may && !unlocked_rnic().has_doorbells();
}

NicThread::Work::Outcome Shard::run_rounds(bool control) {
  now_ = now();
  memory::check_fault_handlers(now_);
  state_.wires->woken();
  woke_sleeper_ = false;
  if (control) {
    state_.registry->serve(*this);
    state_.wires->serve_control(*this);
  }
  bool useful = false;
  for (int i = 0; i < kRounds && run_round(Receive::yes); ++i) useful = useful || received_;
  return {wake_at(), useful, woke_sleeper_};
}

// ---- questions of other processes

registry::Account Shard::account(std::uint32_t queue_pairs) {
  Outputs::Part part;
  if (queue_pairs != 0) part = state_.outputs.activity(state_.rnic, *state_.wires, queue_pairs);
  if (queue_pairs > 1) return {pairs_as_json(part.pairs), part.next};
  Statistics s = state_.outputs.statistics(state_.rnic, *state_.wires);
  // There may be more pairs than fit into a message.
  s.unlisted = queue_pairs != 0 ? part.left : s.unlisted + s.pairs.size();
  s.pairs = std::move(part.pairs);
  return {as_json(s), part.next};
}

// ---- fork(): other functions lock, unlock and use the state, so the analysis can't follow.

void Shard::lock_for_fork() NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
void Shard::unlock_after_fork() NO_THREAD_SAFETY_ANALYSIS { lock_.unlock(); }

void Shard::abandon() NO_THREAD_SAFETY_ANALYSIS {
  state_.observe(nullptr);
  trace_ = nullptr;
  state_.outputs.abandon();
  state_.wires->abandon();
  state_.registry->abandon();
  state_.raw.abandon();
  state_.frames->abandon();
}

}  // namespace verbena::host
