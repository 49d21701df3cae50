// C++ with -fnon-call-exceptions: a handler makes an exception of a fault.
//
//   fault_exceptions ROUNDS

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

extern "C" int run_thefts(int rounds);

namespace {

struct Fault : std::runtime_error {
  Fault() : std::runtime_error{"fault"} {}
};

void handle(int, siginfo_t*, void*) { throw Fault{}; }

/// Where the page is, which nobody may touch.
bool throws(volatile char* page) {
  try {
    *page = 1;
  } catch (const Fault&) {
    return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const int rounds = std::atoi(argv[1]);
  struct sigaction mine {};
  mine.sa_sigaction = handle;
  mine.sa_flags = SA_SIGINFO | SA_NODEFER;  // nobody unblocks it otherwise
  int thefts = 0;
  for (int i = 0; i < rounds; ++i) {
    if (sigaction(SIGSEGV, &mine, nullptr) != 0) return 1;
    for (int fault = 0; fault < 100; ++fault) {
      if (!throws(nullptr)) return 1;
    }
    thefts += run_thefts(1);
  }
  std::printf("%d thefts under traffic beside %d exceptions\n", thefts, 100 * rounds);
}
