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
#include <cstring>
#include <mutex>
#include <new>

#include "base/spin_lock.h"
#include "memory/guarded_copy.h"
#include "memory/guarded_word.h"

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
  std::atomic<std::uint64_t> blocks{0};   // bits of the signals that wait while the handler runs
};

std::array<ProgramAction, kSignals.size()> program_actions;
/// Guards program_actions. Its holders have all signals blocked.
SpinLock actions_lock;
/// Bits of the signals that the program ignores: a fault ends the process at once, in any thread.
std::atomic<std::uint64_t> ignored{0};
/// The process that catches faults; 0: none yet. A child of vfork() runs in our memory, but its
/// handlers are its own.
std::atomic<pid_t> owner{0};

struct Check {
  Instant good_until{};
  bool caught = false;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Check check;
[[gnu::tls_model("initial-exec")]] constinit thread_local bool passes_signals_on = false;

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
  const auto failed = ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &mask, kSignalBytes);
  return failed == 0 ? mask : ~std::uint64_t{0};
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

/// The kernel raised it, because of the instruction at the pc. Others come by kill() and the like,
/// say that memory has gone bad that nobody has touched yet, or come late (memory tags).
bool is_fault(const siginfo_t& info) {
#if defined(SEGV_MTEAERR)
  if (info.si_signo == SIGSEGV && info.si_code == SEGV_MTEAERR) return false;
#endif
  const bool warning = info.si_signo == SIGBUS && info.si_code == BUS_MCEERR_AO;
  return info.si_code > 0 && !warning;
}

/// 0: the instruction is none of the guarded ones.
std::uintptr_t landing_of(std::uintptr_t pc) {
  const std::uintptr_t landing = landing_of_guarded_copy(pc);
  return landing != 0 ? landing : landing_of_guarded_word(pc);
}

/// The default action, now that the signal can't be meant for anybody else.
void take_default_action(int signal, const siginfo_t& info) {
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  __sigaction(signal, &by_default, nullptr);
  // A faulting instruction faults again. Another signal must be sent again, with what a core dump
  // says of its sender: it is blocked now, and comes when we return.
  if (is_fault(info)) return;
  const auto self = ::syscall(SYS_gettid);
  if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), self, signal, &info) != 0) {
    ::syscall(SYS_tgkill, ::getpid(), self, signal);
  }
}

/// Somebody has sent the signal to the process, and the kernel chose our thread because it doesn't
/// block it. The program's threads may: then it waits for sigwait() or a signalfd. Copies of this
/// thread are system calls from now on.
void pass_on(int signal, const siginfo_t& info, ucontext_t& where) {
  sigaddset(&where.uc_sigmask, signal);
  const std::uint64_t mask = bit_of(signal);
  ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, nullptr, kSignalBytes);
  signal_mask_changed();
  if (::syscall(SYS_rt_sigqueueinfo, ::getpid(), signal, &info) != 0) ::kill(::getpid(), signal);
}

/// What the program wants to be called now. nullptr: nothing, the default action is due.
Handler take_handler(ProgramAction& action) {
  Handler handler = action.handler.load();
  while (handler != nullptr && action.once.load()) {
    if (action.handler.compare_exchange_strong(handler, nullptr)) break;
  }
  return handler;
}

/// Ours runs with all signals blocked. The program's gets the mask that the kernel would have given
/// it: what the thread blocked before, and what the program asked for.
void let_signals_in(const ucontext_t& where, const ProgramAction& action) {
  std::uint64_t mask = 0;
  std::memcpy(&mask, &where.uc_sigmask, kSignalBytes);
  mask |= action.blocks.load();
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, kSignalBytes);
}

// An exception may pass through: programs throw from handlers.
void on_signal(int signal, siginfo_t* info, void* context) {
  auto& where = *static_cast<ucontext_t*>(context);
  const bool fault = is_fault(*info);
  if (const std::uintptr_t landing = fault ? landing_of(pc_of(where)) : 0) {
    set_pc(where, landing);
    return;
  }
  const int error = errno;
  if (!fault && passes_signals_on) {
    pass_on(signal, *info, where);
    errno = error;
    return;
  }
  ProgramAction& action = *action_of(signal);
  const Handler handler = take_handler(action);
  if (handler == nullptr) {
    take_default_action(signal, *info);
    errno = error;
    return;
  }
  // It runs with signals blocked, may use the verbs, and may never return.
  signal_mask_changed();
  let_signals_in(where, action);
  errno = error;
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

/// What the kernel is asked to do where the program wants `wanted`.
struct sigaction around(const struct sigaction& wanted) {
  // An ignored signal stays ignored after exec(), which a handler wouldn't.
  if (wanted.sa_handler == SIG_IGN) return wanted;
  struct sigaction ours = wanted;
  if (wanted.sa_handler == SIG_DFL) ours.sa_flags = SA_ONSTACK;
  // Otherwise another signal could interrupt ours while it has SIGSEGV blocked, and a fault in the
  // handler of that signal would end the process. Not sigfillset(): it leaves out libc's signals.
  std::memset(&ours.sa_mask, 0xff, sizeof ours.sa_mask);
  ours.sa_sigaction = &on_signal;
  ours.sa_flags = static_cast<int>((static_cast<unsigned>(ours.sa_flags) | SA_SIGINFO) &
                                   ~static_cast<unsigned>(SA_RESETHAND));
  return ours;
}

/// What the kernel would add to the mask of a thread that runs the program's handler.
std::uint64_t blocked_by(int signal, const struct sigaction& wanted) {
  std::uint64_t mask = 0;
  std::memcpy(&mask, &wanted.sa_mask, kSignalBytes);
  return (wanted.sa_flags & SA_NODEFER) != 0 ? mask : mask | bit_of(signal);
}

void keep(int signal, const struct sigaction& wanted) {
  const bool handled = wanted.sa_handler != SIG_DFL && wanted.sa_handler != SIG_IGN;
  ProgramAction& action = *action_of(signal);
  action.wanted = wanted;
  action.once = (static_cast<unsigned>(wanted.sa_flags) & static_cast<unsigned>(SA_RESETHAND)) != 0;
  action.blocks = blocked_by(signal, wanted);
  action.handler = handled ? wanted.sa_sigaction : nullptr;
}

/// The lock is held. `displaced`: what the kernel had.
int install(int signal, const struct sigaction& wanted, struct sigaction* displaced = nullptr) {
  const struct sigaction before = action_of(signal)->wanted;
  const struct sigaction asked = around(wanted);
  keep(signal, wanted);
  if (!is_ours(asked)) ignored.fetch_or(bit_of(signal));  // before the kernel ignores it
  const int failed = __sigaction(signal, &asked, displaced);
  if (failed != 0) keep(signal, before);  // a sandbox may forbid it
  if (failed == 0 && is_ours(asked)) ignored.fetch_and(~bit_of(signal));
  return failed;
}

/// The lock is held. A thread that was in libc's own sigaction() meanwhile has its way.
void take_over(int signal) {
  struct sigaction wanted = program_sees(signal);
  for (;;) {
    struct sigaction displaced = wanted;
    if (install(signal, wanted, &displaced) != 0) return;
    if (is_ours(displaced) || displaced.sa_sigaction == wanted.sa_sigaction) return;
    wanted = displaced;
  }
}

/// In a child of vfork(), or of a bare clone(): its handlers are its own, what we keep is its
/// parent's.
int set_action_in_child(int signal, const struct sigaction* action, struct sigaction* old) {
  const int result = __sigaction(signal, action, old);
  if (result == 0 && old != nullptr && is_ours(*old)) *old = action_of(signal)->wanted;
  return result;
}

}  // namespace

void catch_faults() {
  if constexpr (!kHasGuardedCopy) return;
  if (owner.load() == ::getpid()) return;
  const ActionsHolder holder;
  if (owner.exchange(::getpid()) == ::getpid()) return;
  for (const int signal : kSignals) take_over(signal);
}

void check_fault_handlers(Instant now) {
  if (now < check.good_until) return;
  check.good_until = now + kGoodFor;
  check.caught = owner.load(std::memory_order_relaxed) != 0 &&
                 (signal_mask() & (bit_of(SIGSEGV) | bit_of(SIGBUS))) == 0 &&
                 is_installed(SIGSEGV) && is_installed(SIGBUS);
}

bool faults_are_caught() { return check.caught && ignored.load(std::memory_order_relaxed) == 0; }

void catch_faults_of_own_thread() {
  passes_signals_on = true;  // first: one may be waiting
  const std::uint64_t mask = bit_of(SIGSEGV) | bit_of(SIGBUS);
  ::syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &mask, nullptr, kSignalBytes);
  signal_mask_changed();
}

bool handles_fault_signal(int signal) { return action_of(signal) != nullptr && owner.load() != 0; }

int set_program_action(int signal, const struct sigaction* action, struct sigaction* old) {
  if (owner.load() != ::getpid()) return set_action_in_child(signal, action, old);
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
