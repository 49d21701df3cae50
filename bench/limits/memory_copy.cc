// memcpy of --size bytes from one buffer to another in one process: 10⁹ bytes a second.

#include "limits.h"

int main(int argc, char** argv) {
  using namespace limits;
  const Options options = parse(argc, argv);
  pin(options.first_core);
  std::byte* const from = pages(options.size, MAP_PRIVATE);
  std::byte* const to = pages(options.size, MAP_PRIVATE);
  double bytes = 0;
  const auto start = Clock::now();
  while (seconds_since(start) < options.seconds) {
    std::memcpy(to, from, options.size);
    asm volatile("" : : "r"(to) : "memory");  // else the copy isn't made
    bytes += static_cast<double>(options.size);
  }
  print({{"gb_per_s", bytes / seconds_since(start) / 1e9}});
}
