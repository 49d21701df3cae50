// Non-temporal stores from the program into the ring, memcpy from the ring to the program: two
// copies in user mode, the fewest that a ring can have.

#include "ring.h"

int main(int argc, char** argv) {
  using namespace limits;
  const Options options = parse(argc, argv);
  const File ring{options.ring};
  measure_ring(options,
               {.in =
                    [&](std::size_t at, const std::byte* from, std::size_t size) {
                      copy_non_temporal(ring.mapped + at, from, size);
                      fence_non_temporal();
                    },
                .out = [&](std::size_t at, std::byte* to,
                           std::size_t size) { std::memcpy(to, ring.mapped + at, size); }});
}
