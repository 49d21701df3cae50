// Lab: bulk
//
// Learn: the same bytes by RDMA and by TCP. Chunk size, signalling interval and queue depth
//        decide how often the program is involved; throughput and CPU time follow.
// Run:   verbena lab bulk                   both ends on this machine
//        verbena lab bulk server | verbena lab bulk client HOST
// Try:   --size 256M --chunks 64K --depths 1,2,4,8,16 --every 1

#include "labs/bulk/messages.h"

bulk::Sweep sweep;

namespace {

void add_options(lab::OwnOptions& own) {
  own.list("--chunks", sweep.chunks, {1, 1u << 30}, "Bytes of one request, or of one send(2)");
  own.list("--depths", sweep.depths, {1, 1u << 20}, "Requests in flight at most");
  own.list("--every", sweep.every, {1, 1u << 20}, "One request in so many makes a completion");
  own.finally([]() -> std::string {
    const std::uint64_t least = *std::ranges::min_element(sweep.every);
    if (least <= sweep.deepest()) return "";
    return fmt::format(
        "--every: {} exceeds the deepest of --depths, {}: a queue full of requests "
        "without completions never empties",
        least, sweep.deepest());
  });
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "bulk",
                   .idea = "The same bytes by RDMA and by TCP: throughput and CPU per gigabyte",
                   .size = 8 << 20,
                   .more = add_options},
                  server, client);
}
