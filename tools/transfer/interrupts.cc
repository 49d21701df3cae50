#include "tools/transfer/interrupts.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "tools/transfer/descriptor.h"

namespace verbena::transfer {
namespace {

std::atomic<bool> waits = false, came = false;
int event = -1;

void handle(int) {
  constexpr std::string_view kWords = "interrupted\n";
  if (!waits || came) {
    [[maybe_unused]] const ssize_t said = write(STDERR_FILENO, kWords.data(), kWords.size());
    _exit(kExitInterrupted);
  }
  came = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t told = write(event, &one, sizeof one);
}

}  // namespace

void catch_interrupts() {
  event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) throw_errno("eventfd");
  struct sigaction action {};
  action.sa_handler = handle;
  signal(SIGXFSZ, SIG_IGN);  // a file over `ulimit -f` is an error like others
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

InterruptsWait::InterruptsWait() { waits = true; }
InterruptsWait::~InterruptsWait() { waits = false; }

bool interrupted() { return came; }
int interrupt_fd() { return event; }

}  // namespace verbena::transfer
