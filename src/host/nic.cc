#include "host/nic.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "host/config.h"
#include "host/nic_state.h"
#include "host/program_signals.h"
#include "host/shutdown/drain.h"
#include "host/shutdown/fork_handlers.h"
#include "memory/fault_handler.h"

namespace verbena::host {

namespace {

std::mutex starting;
std::atomic<Nic*> running{nullptr};
std::atomic<Nic*> forgotten{nullptr};  // in a child: its parent's, not leaked but left
std::atomic<pid_t> running_in{0};      // a child of vfork() sees its parent's memory

}  // namespace

Nic::Nic(std::unique_ptr<State> state) : state_{std::move(state)} {}
Nic::~Nic() = default;

Result<Nic*> Nic::instance() {
  if (Nic* nic = running.load(std::memory_order_acquire)) return nic;
  const std::lock_guard lock{starting};
  if (Nic* nic = running.load(std::memory_order_acquire)) return nic;
  if (config().problem) return Error{EINVAL, *config().problem};

  auto state = State::create();
  if (!state) return state.error();
  if (auto started = (*state)->start(); !started) return started.error();
  if (program_signals_are_hooked()) memory::catch_faults();

  // The child of a fork() starts afresh: it closes what it inherited and forgets the rest.
  // With the shards locked, it finds nothing half-changed.
  constexpr auto prepare = [] {
    starting.lock();
    if (Nic* nic = running.load()) {
      nic->state_->for_each_shard([](Shard& shard) { shard.lock_for_fork(); });
    }
  };
  constexpr auto in_parent = [] {
    Nic* const nic = running.load();
    if (nic != nullptr) {
      nic->state_->for_each_shard([](Shard& shard) { shard.unlock_after_fork(); });
    }
    starting.unlock();
    // Another thread may have posted meanwhile.
    if (nic != nullptr) nic->state_->for_each_shard([](Shard& shard) { shard.send_inline(); });
  };
  constexpr auto in_child = [] {
    memory::keep_fault_handlers_after_fork();
    if (Nic* parents = running.exchange(nullptr)) {
      forgotten.store(parents);
      parents->state_->abandon();
      parents->state_->for_each_shard([](Shard& shard) { shard.unlock_after_fork(); });
    }
    starting.unlock();
  };
  static constexpr ForkHandler handler{prepare, in_parent, in_child};
  at_fork(ForkRank::nic, handler);
  static const int at_exit = std::atexit([] {
    Nic* const nic = running.load();
    if (nic == nullptr) return;
    nic->state_->for_each_shard(drain);
    nic->state_->for_each_shard(write_reports);
  });
  static const int at_quick_exit = std::at_quick_exit(before_sudden_exit);
  static_cast<void>(at_exit);
  static_cast<void>(at_quick_exit);
  running_in.store(getpid());
  Nic* const nic = new Nic{std::move(*state)};  // lives as long as its thread: to the end
  running.store(nic, std::memory_order_release);
  return nic;
}

void Nic::before_sudden_exit() {
  Nic* const nic = running.load();
  if (nic != nullptr && running_in.load() == getpid()) {
    nic->state_->for_each_shard(send_final_acknowledgements);
  }
}

}  // namespace verbena::host
