// The program's memory is touched by system calls alone, the ring without any: pwrite to a private
// frame, non-temporal stores from there into the ring; memcpy from the ring to a private frame,
// pread from there to the program.

#include "ring.h"

int main(int argc, char** argv) {
  using namespace limits;
  const Options options = parse(argc, argv);
  const File ring{options.ring};
  const File sent{options.piece};
  const File received{options.piece};
  measure_ring(options, {.in =
                             [&](std::size_t at, const std::byte* from, std::size_t size) {
                               sent.write(0, from, size);
                               copy_non_temporal(ring.mapped + at, sent.mapped, size);
                               fence_non_temporal();
                             },
                         .out =
                             [&](std::size_t at, std::byte* to, std::size_t size) {
                               std::memcpy(received.mapped, ring.mapped + at, size);
                               received.read(0, to, size);
                             }});
}
