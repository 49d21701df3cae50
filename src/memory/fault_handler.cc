#include "memory/fault_handler.h"

#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include "base/spin_lock.h"
#include "memory/guarded_copy.h"

// sigaction() of libc itself: what stands before it (a sanitizer's, our own hook) is not asked.
extern "C" int __sigaction(int signal, const struct sigaction* action,
                           struct sigaction* old) noexcept;

namespace verbena::memory {
namespace {

using Handler = void (*)(int, siginfo_t*, void*);

constexpr std::array kSignals{SIGSEGV, SIGBUS};
constexpr std::size_t kSignalBytes = 8;  // of the kernel's sigset_t
constexpr Duration kGoodFor = std::chrono::milliseconds{1};

/// What the program wants to happen at a signal.
struct ProgramAction {
  struct sigaction wanted {};
  // Of `wanted`, for the handler, which waits for no lock.
  std::atomic<Handler> handler{nullptr};  // nullptr: the default action
  std::atomic<bool> once{false};          // SA_RESETHAND
};

std::array<ProgramAction, kSignals.size()> program_actions;
/// Guards program_actions. Its holders have all signals blocked.
SpinLock actions_lock;
/// The process that catches faults; 0: none yet. A child of vfork() runs in our memory, but its
/// handlers are its own.
std::atomic<pid_t> owner{0};

struct Check {
  Instant good_until{};
  bool caught = false;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Check check;

ProgramAction* action_of(int signal) {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] == signal) return &program_actions[i];
  }
  return nullptr;
}

std::uint64_t bit_of(int signal) { return std::uint64_t{1} << (signal - 1); }

/// Bits of the thread's mask. By the system call: libc's functions are hooked.
std::uint64_t signal_mask() {
  std::uint64_t mask = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &mask, kSignalBytes);
  return mask;
}

/// All signals are blocked in its scope, and the lock is held.
class ActionsHolder {
 public:
  ActionsHolder() {
    constexpr std::uint64_t kAll = ~std::uint64_t{0};
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kAll, &before_, kSignalBytes);
    actions_lock.lock();
  }
  ~ActionsHolder() {
    actions_lock.unlock();
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, kSignalBytes);
  }
  ActionsHolder(const ActionsHolder&) = delete;
  ActionsHolder& operator=(const ActionsHolder&) = delete;

 private:
  std::uint64_t before_ = 0;
};

#if defined(__x86_64__)
std::uintptr_t pc_of(const ucontext_t& c) {
  return static_cast<std::uintptr_t>(c.uc_mcontext.gregs[REG_RIP]);
}
void set_pc(ucontext_t& c, std::uintptr_t pc) {
  c.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(pc);
}
#elif defined(__aarch64__)
std::uintptr_t pc_of(const ucontext_t& c) { return c.uc_mcontext.pc; }
void set_pc(ucontext_t& c, std::uintptr_t pc) { c.uc_mcontext.pc = pc; }
#else
std::uintptr_t pc_of(const ucontext_t&) { return 0; }
void set_pc(ucontext_t&, std::uintptr_t) {}
#endif

/// The kernel raised it, because of an instruction. Others come by kill() and the like, or say that
/// memory has gone bad that nobody has touched yet.
bool is_fault(const siginfo_t& info) {
  const bool warning = info.si_signo == SIGBUS && info.si_code == BUS_MCEERR_AO;
  return info.si_code > 0 && !warning;
}

/// The default action, now that the signal can't be meant for anybody else.
void take_default_action(int signal, const siginfo_t& info) {
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  __sigaction(signal, &by_default, nullptr);
  // A faulting instruction faults again. Another signal must be sent again: it is blocked now, and
  // comes when we return.
  if (!is_fault(info)) ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), signal);
}

// An exception may pass through: programs throw from handlers.
void on_signal(int signal, siginfo_t* info, void* context) {
  auto& where = *static_cast<ucontext_t*>(context);
  if (is_fault(*info)) {
    if (const std::uintptr_t landing = landing_of_guarded_copy(pc_of(where))) {
      set_pc(where, landing);
      return;
    }
  }
  ProgramAction& action = *action_of(signal);
  Handler handler = action.handler.load();
  if (handler != nullptr && action.once.load() &&
      !action.handler.compare_exchange_strong(handler, nullptr)) {
    handler = nullptr;  // another thread's signal came first
  }
  if (handler == nullptr) {
    const int error = errno;
    take_default_action(signal, *info);
    errno = error;
    return;
  }
  handler(signal, info, context);
}

bool is_ours(const struct sigaction& a) {
  return (a.sa_flags & SA_SIGINFO) != 0 && a.sa_sigaction == &on_signal;
}

bool is_installed(int signal) {
  struct sigaction now {};
  return __sigaction(signal, nullptr, &now) == 0 && is_ours(now);
}

/// The lock is held. What the program sees now: its own action, also if it went around the hooks.
struct sigaction program_sees(int signal) {
  struct sigaction now {};
  __sigaction(signal, nullptr, &now);
  if (!is_ours(now)) return now;
  ProgramAction& action = *action_of(signal);
  const bool reset = action.handler.load() == nullptr;
  if (reset && action.wanted.sa_handler != SIG_DFL) {  // SA_RESETHAND
    action.wanted = {};
    action.wanted.sa_handler = SIG_DFL;
  }
  return action.wanted;
}

/// The lock is held.
int install(int signal, const struct sigaction& wanted) {
  // An ignored signal stays ignored after exec(), which a handler wouldn't.
  if (wanted.sa_handler == SIG_IGN) return __sigaction(signal, &wanted, nullptr);
  const bool by_default = wanted.sa_handler == SIG_DFL;
  struct sigaction ours = wanted;
  ours.sa_sigaction = &on_signal;
  if (by_default) {
    ours.sa_flags = SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
  }
  ours.sa_flags = static_cast<int>((static_cast<unsigned>(ours.sa_flags) | SA_SIGINFO) &
                                   ~static_cast<unsigned>(SA_RESETHAND));
  ProgramAction& action = *action_of(signal);
  action.wanted = wanted;
  action.once = (static_cast<unsigned>(wanted.sa_flags) & static_cast<unsigned>(SA_RESETHAND)) != 0;
  action.handler = by_default ? nullptr : wanted.sa_sigaction;
  return __sigaction(signal, &ours, nullptr);
}

}  // namespace

void catch_faults() {
  if constexpr (!kHasGuardedCopy) return;
  if (owner.load() == ::getpid()) return;
  const ActionsHolder holder;
  if (owner.exchange(::getpid()) == ::getpid()) return;
  for (const int signal : kSignals) {
    const struct sigaction before = program_sees(signal);
    install(signal, before);
  }
}

void check_fault_handlers(Instant now) {
  if (now < check.good_until) return;
  check.good_until = now + kGoodFor;
  check.caught = owner.load(std::memory_order_relaxed) != 0 &&
                 (signal_mask() & (bit_of(SIGSEGV) | bit_of(SIGBUS))) == 0 &&
                 is_installed(SIGSEGV) && is_installed(SIGBUS);
}

bool faults_are_caught() { return check.caught; }

bool handles_fault_signal(int signal) {
  return action_of(signal) != nullptr && owner.load() == ::getpid();
}

int set_program_action(int signal, const struct sigaction* action, struct sigaction* old) {
  // Whatever is wrong with the program's pointers is found before the lock is taken.
  struct sigaction wanted {};
  if (action != nullptr) wanted = *action;
  struct sigaction before {};
  int result = 0;
  {
    const ActionsHolder holder;
    before = program_sees(signal);
    if (action != nullptr) result = install(signal, wanted);
  }
  if (old != nullptr) *old = before;
  if (action != nullptr) check.good_until = {};
  return result;
}

void signal_mask_changed() {
  check.good_until = {};
  check.caught = false;
}

void keep_fault_handlers_after_fork() {
  new (&actions_lock) SpinLock;  // another thread of the parent may have held it
  if (owner.load() != 0) owner = ::getpid();
}

}  // namespace verbena::memory
