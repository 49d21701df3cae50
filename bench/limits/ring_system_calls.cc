// pwrite from the program into the ring, pread out of it: copies that can't hurt the program,
// because the kernel makes them.

#include "ring.h"

int main(int argc, char** argv) {
  using namespace limits;
  const Options options = parse(argc, argv);
  const File ring{options.ring};
  measure_ring(options, {.in = [&](std::size_t at, const std::byte* from,
                                   std::size_t size) { ring.write(at, from, size); },
                         .out = [&](std::size_t at, std::byte* to,
                                    std::size_t size) { ring.read(at, to, size); }});
}
