#pragma once

// Handlers for SIGSEGV and SIGBUS that let guarded copies (guarded_copy.h) go on, and leave every
// other fault to the program, as if they weren't there. See docs/decisions/004-safe-copies.md.
//
//   fault ──► ours ── in a guarded copy ──► the copy returns false
//               └──── elsewhere ──────────► the program's handler, or the default action
//
// The kernel gives ours the flags that the program asked for with its own handler. Ours blocks all
// signals while it decides, and sets the mask that the program asked for before it calls the
// program's. So the program's runs as the kernel would have run it. A program that replaces ours by
// a raw system call, ignores these signals or blocks them in a thread is noticed within a
// millisecond, and copies are system calls from then on.

#include <csignal>

#include "base/time.h"

namespace verbena::memory {

/// Installs the handlers. Idempotent. Any thread.
void catch_faults();

/// Before guarded copies of this thread, once in a round of work: looks whether faults are caught
/// now, at most once a millisecond.
void check_fault_handlers(Instant now);

/// What check_fault_handlers() found for this thread. False: it was not called yet.
[[nodiscard]] bool faults_are_caught();

/// The calling thread is ours, not the program's, and was started with all signals blocked. It
/// unblocks these, for its own faults alone: those that somebody sends are for the program's
/// threads.
void catch_faults_of_own_thread();

// What the hooks of libc's functions need (front/preload/signal_hooks.cc).

/// The handler of this signal is ours to install: set_program_action() instead of sigaction().
[[nodiscard]] bool handles_fault_signal(int signal);
/// As sigaction(), for what the program sees: its own handlers alone. Also in a child of vfork().
int set_program_action(int signal, const struct sigaction* action, struct sigaction* old);
/// This thread changes its signal mask. Async-signal-safe.
void signal_mask_changed();

/// In a forked child, which has the handlers, too.
void keep_fault_handlers_after_fork();

}  // namespace verbena::memory
