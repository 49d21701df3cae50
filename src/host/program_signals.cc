#include "host/program_signals.h"

#include "memory/fault_handler.h"

namespace verbena::host {

bool keeps_program_action(int signal) { return memory::handles_fault_signal(signal); }

int set_program_action(int signal, const struct sigaction* action, struct sigaction* old) {
  return memory::set_program_action(signal, action, old);
}

void signal_mask_changes() { memory::signal_mask_changed(); }

}  // namespace verbena::host
