// Two processes wake each other by eventfds: half a round trip. This is what the kernel takes to
// wake a process, and no program that sleeps until a message comes can be faster.

#include <sys/eventfd.h>

#include "limits.h"

namespace {

using namespace limits;

void say(int fd) {
  const std::uint64_t one = 1;
  require(write(fd, &one, sizeof one) == sizeof one, "write");
}

void hear(int fd) {
  std::uint64_t count = 0;
  require(read(fd, &count, sizeof count) == sizeof count, "read");
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const int there = eventfd(0, EFD_CLOEXEC);
  const int back = eventfd(0, EFD_CLOEXEC);
  require(there >= 0 && back >= 0, "eventfd");
  const Child echo{[&] {
    pin(options.second_core);
    for (;;) {
      hear(there);
      say(back);
    }
  }};
  pin(options.first_core);
  print_half_round_trips(options, [&] {
    say(there);
    hear(back);
  });
}
