// Two processes on two cores hand 64 B (--size) to each other through shared memory, spinning: half
// a round trip. This is the distance between the cores. No transport can be faster.

#include "limits.h"

namespace {

using namespace limits;

/// The number behind the bytes says that they are there.
struct alignas(128) Slot {
  std::atomic<std::uint64_t> number{0};
  std::byte bytes[4096 - sizeof number];
};

/// The bytes of a small message share the cache line with its number.
void say(Slot& slot, std::uint64_t number, const std::vector<std::byte>& message) {
  std::memcpy(slot.bytes, message.data(), message.size());
  slot.number.store(number, std::memory_order_release);
}

void hear(const Slot& slot, std::uint64_t number, std::vector<std::byte>& message) {
  while (slot.number.load(std::memory_order_acquire) != number) {
  }
  std::memcpy(message.data(), slot.bytes, message.size());
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.size <= sizeof(Slot::number) || options.size > sizeof(Slot)) usage();
  std::vector<std::byte> message(options.size - sizeof(Slot::number));
  Slot& there = shared<Slot>();
  Slot& back = shared<Slot>();
  const Child echo{[&] {
    pin(options.second_core);
    for (std::uint64_t number = 1;; ++number) {
      hear(there, number, message);
      say(back, number, message);
    }
  }};
  pin(options.first_core);
  std::uint64_t number = 0;
  print_half_round_trips(options, [&] {
    say(there, ++number, message);
    hear(back, number, message);
  });
}
