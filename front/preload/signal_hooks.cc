// The functions of libc that change the handlers of SIGSEGV and SIGBUS, or a thread's signal mask.
// Copies to and from the program's memory need both (memory/fault_handler.h); the program doesn't
// notice. longjmp() out of a handler may leave a mask that no hook saw, and is noticed within a
// millisecond.

#include <ucontext.h>

#include <csignal>

#include "front/preload/next.h"
#include "front/verbs/export.h"
#include "host/program_signals.h"

// Names that <signal.h> doesn't always declare.
// NOLINTBEGIN(readability-redundant-declaration)
VERBENA_EXPORT sighandler_t bsd_signal(int signal, sighandler_t handler) noexcept;
VERBENA_EXPORT sighandler_t ssignal(int signal, sighandler_t handler) noexcept;
VERBENA_EXPORT sighandler_t sysv_signal(int signal, sighandler_t handler) noexcept;
VERBENA_EXPORT sighandler_t __sysv_signal(int signal, sighandler_t handler) noexcept;

VERBENA_EXPORT int sigblock(int mask) noexcept;
VERBENA_EXPORT int sigsetmask(int mask) noexcept;
// From System V: a handler and a mask at once.
VERBENA_EXPORT sighandler_t sigset(int signal, sighandler_t disposition) noexcept;
VERBENA_EXPORT int sigignore(int signal) noexcept;
VERBENA_EXPORT int sighold(int signal) noexcept;
VERBENA_EXPORT int sigrelse(int signal) noexcept;
// NOLINTEND(readability-redundant-declaration)

using namespace verbena;

namespace {

using Signal = sighandler_t(int, sighandler_t);

/// As signal() does it, in one of its two traditions.
sighandler_t set_handler(int signal, sighandler_t handler, int flags) {
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  if ((flags & SA_RESTART) != 0) sigaddset(&action.sa_mask, signal);
  return host::set_program_action(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

/// As sigset() does it, without the mask.
sighandler_t set_disposition(int signal, sighandler_t disposition) {
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = disposition;
  sigemptyset(&action.sa_mask);
  const auto* const wanted = disposition == SIG_HOLD ? nullptr : &action;
  return host::set_program_action(signal, wanted, &old) == 0 ? old.sa_handler : SIG_ERR;
}

constexpr int kBsd = SA_RESTART;
constexpr int kSystemV = static_cast<int>(SA_RESETHAND | SA_NODEFER);

/// Before the program can be in a signal handler.
[[gnu::constructor]] void look_up_signals() {
  static_cast<void>(front::next::get<"sigaction", decltype(sigaction)>());
  static_cast<void>(front::next::get<"signal", Signal>());
  static_cast<void>(front::next::get<"__sysv_signal", Signal>());
  static_cast<void>(front::next::get<"sigprocmask", decltype(sigprocmask)>());
  static_cast<void>(front::next::get<"pthread_sigmask", decltype(pthread_sigmask)>());
}

}  // namespace

VERBENA_EXPORT int sigaction(int signal, const struct sigaction* action,
                             struct sigaction* old) noexcept {
  if (host::keeps_program_action(signal)) return host::set_program_action(signal, action, old);
  return front::next::get<"sigaction", decltype(sigaction)>()(signal, action, old);
}

VERBENA_EXPORT sighandler_t signal(int signal, sighandler_t handler) noexcept {
  if (host::keeps_program_action(signal)) return set_handler(signal, handler, kBsd);
  return front::next::get<"signal", Signal>()(signal, handler);
}

sighandler_t bsd_signal(int signal, sighandler_t handler) noexcept {
  return ::signal(signal, handler);
}

sighandler_t ssignal(int signal, sighandler_t handler) noexcept {
  return ::signal(signal, handler);
}

sighandler_t __sysv_signal(int signal, sighandler_t handler) noexcept {
  if (host::keeps_program_action(signal)) return set_handler(signal, handler, kSystemV);
  return front::next::get<"__sysv_signal", Signal>()(signal, handler);
}

sighandler_t sysv_signal(int signal, sighandler_t handler) noexcept {
  return __sysv_signal(signal, handler);
}

VERBENA_EXPORT int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  if (set != nullptr) host::signal_mask_changes();
  return front::next::get<"sigprocmask", decltype(sigprocmask)>()(how, set, old);
}

VERBENA_EXPORT int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  if (set != nullptr) host::signal_mask_changes();
  return front::next::get<"pthread_sigmask", decltype(pthread_sigmask)>()(how, set, old);
}

int sigblock(int mask) noexcept {
  host::signal_mask_changes();
  return front::next::get<"sigblock", int(int)>()(mask);
}

int sigsetmask(int mask) noexcept {
  host::signal_mask_changes();
  return front::next::get<"sigsetmask", int(int)>()(mask);
}

int sighold(int signal) noexcept {
  host::signal_mask_changes();
  return front::next::get<"sighold", int(int)>()(signal);
}

int sigrelse(int signal) noexcept {
  host::signal_mask_changes();
  return front::next::get<"sigrelse", int(int)>()(signal);
}

int sigignore(int signal) noexcept {
  if (!host::keeps_program_action(signal)) {
    return front::next::get<"sigignore", int(int)>()(signal);
  }
  return set_disposition(signal, SIG_IGN) == SIG_ERR ? -1 : 0;
}

sighandler_t sigset(int signal, sighandler_t disposition) noexcept {
  if (!host::keeps_program_action(signal)) {
    host::signal_mask_changes();
    return front::next::get<"sigset", Signal>()(signal, disposition);
  }
  const sighandler_t old = set_disposition(signal, disposition);
  if (old == SIG_ERR) return old;
  sigset_t only;
  sigset_t before;
  sigemptyset(&only);
  sigaddset(&only, signal);
  const int how = disposition == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK;
  if (::sigprocmask(how, &only, &before) != 0) return SIG_ERR;
  return sigismember(&before, signal) != 0 ? SIG_HOLD : old;
}

// These go to another mask without asking libc's functions.

VERBENA_EXPORT int setcontext(const ucontext_t* to) noexcept {
  host::signal_mask_changes();
  return front::next::get<"setcontext", int(const ucontext_t*)>()(to);
}

VERBENA_EXPORT int swapcontext(ucontext_t* from, const ucontext_t* to) noexcept {
  host::signal_mask_changes();
  return front::next::get<"swapcontext", int(ucontext_t*, const ucontext_t*)>()(from, to);
}
