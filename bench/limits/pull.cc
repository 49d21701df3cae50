// The receiver copies each message out of the sender's memory with process_vm_readv: no ring, one
// copy, one system call for each message.

#include <sys/uio.h>

#include "bare_loop.h"

int main(int argc, char** argv) {
  using namespace limits;
  // Messages that the sender may prepare before the first of them was pulled.
  constexpr std::uint64_t kBuffers = 4;
  const Options options = parse(argc, argv);
  auto& counters = shared<Counters>();
  Source source{options, kBuffers};
  const Child sender{[&] {
    pin(options.first_core);
    for (std::uint64_t published = 0;;) {
      while (published - counters.released.load(std::memory_order_acquire) == kBuffers) {
      }
      source.next();
      counters.published.store(++published, std::memory_order_release);
    }
  }};
  pin(options.second_core);
  print_stream(options, source, [&](std::byte* bytes, std::uint64_t number) {
    while (counters.published.load(std::memory_order_acquire) == number) {
    }
    // The child's memory has the addresses that it had here before the fork.
    const iovec local{bytes, options.size};
    const iovec remote{source.buffer(number), options.size};
    const auto n = process_vm_readv(sender.pid(), &local, 1, &remote, 1, 0);
    if (n < 0 && (errno == EPERM || errno == ENOSYS)) skip("process_vm_readv");
    require(n == static_cast<ssize_t>(options.size), "process_vm_readv");
    counters.released.store(number + 1, std::memory_order_release);
  });
}
