// A program that ends with _exit() has perhaps just taken a message out of its completion queue,
// and the acknowledgement waits for its answer (docs/decisions/016-acknowledgements-wait.md). It
// leaves now.

#include <unistd.h>

#include "front/preload/next.h"
#include "front/verbs/export.h"
#include "host/nic.h"

VERBENA_EXPORT void _exit(int status) {
  verbena::host::Nic::before_sudden_exit();
  verbena::front::next::get<"_exit", decltype(_exit)>()(status);
  __builtin_unreachable();
}

VERBENA_EXPORT void _Exit(int status) { _exit(status); }
