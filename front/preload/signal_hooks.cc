// The functions of libc that change the handlers of SIGSEGV and SIGBUS, or a thread's signal mask.
// Copies to and from the program's memory need both (memory/fault_handler.h); the program doesn't
// notice. Older functions (sigset, sigvec, siginterrupt) pass by, and are noticed within a
// millisecond.

#include <csignal>

#include "front/preload/next.h"
#include "front/verbs/export.h"
#include "host/program_signals.h"

// Names that <signal.h> doesn't always declare.
VERBENA_EXPORT sighandler_t bsd_signal(int signal, sighandler_t handler) noexcept;
VERBENA_EXPORT sighandler_t ssignal(int signal, sighandler_t handler) noexcept;
VERBENA_EXPORT sighandler_t sysv_signal(int signal, sighandler_t handler) noexcept;
VERBENA_EXPORT sighandler_t __sysv_signal(int signal, sighandler_t handler) noexcept;

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

constexpr int kBsd = SA_RESTART;
constexpr int kSystemV = static_cast<int>(SA_RESETHAND | SA_NODEFER);

/// Before the program can be in a signal handler.
[[gnu::constructor]] void look_up_signals() {
  static_cast<void>(front::next::get<"sigaction", decltype(sigaction)>());
  static_cast<void>(front::next::get<"signal", Signal>());
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
