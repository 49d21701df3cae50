#include "host/program_signals.h"

#include <dlfcn.h>

#include "memory/fault_handler.h"

namespace verbena::host {
namespace {

[[gnu::tls_model("initial-exec")]] constinit thread_local bool hook_was_called = false;

}  // namespace

bool keeps_program_action(int signal) { return memory::handles_fault_signal(signal); }

int set_program_action(int signal, const struct sigaction* action, struct sigaction* old) {
  return memory::set_program_action(signal, action, old);
}

void signal_mask_changes() {
  hook_was_called = true;
  memory::signal_mask_changed();
}

bool program_signals_are_hooked() {
  // A call as the program makes it. Others may stand before our hook, and call it.
  using Function = int(int, const sigset_t*, sigset_t*);
  auto* const call = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, "pthread_sigmask"));
  sigset_t none;
  sigemptyset(&none);
  hook_was_called = false;
  return call != nullptr && call(SIG_BLOCK, &none, nullptr) == 0 && hook_was_called;
}

}  // namespace verbena::host
