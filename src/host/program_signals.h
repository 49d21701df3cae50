#pragma once

// What the hooks of libc's signal functions need: see memory/fault_handler.h.

#include <csignal>

namespace verbena::host {

/// The program's handlers of this signal are kept: set_program_action() instead of sigaction().
[[nodiscard]] bool keeps_program_action(int signal);
/// As sigaction(), for what the program sees.
int set_program_action(int signal, const struct sigaction* action, struct sigaction* old);
/// The mask of the calling thread is changing. Async-signal-safe.
void signal_mask_changes();

/// The program's calls come to the hooks. Not so where the library was loaded by dlopen(): libc
/// stands before it.
[[nodiscard]] bool program_signals_are_hooked();

}  // namespace verbena::host
