// Lab: inference-ring
//
// Learn: a ring of batches in the consumer's memory, written one-sidedly. The batch's id comes as
//        immediate data; credits go back the same way, and they are what keeps a fast producer
//        from overwriting what a slow consumer hasn't seen. Queues turn a slow moment into tail
//        latency.
// Run:   verbena lab inference-ring         both ends on this machine
//        verbena lab inference-ring server | verbena lab inference-ring client HOST
// Try:   --slots 4, --stall 100000, --no-credits
//
//   producer                                        consumer
//                                                   1 a ring of slots, a receive for each
//   2 receives for credits
//   3 batch into its slot  -- WRITE, imm = id -->
//                                                   4 check, infer, check again
//                          <-- WRITE, imm = n ---   5 n consumed: a credit
//   6 full? wait for it

#include "labs/inference-ring/settings.h"

Settings settings;

namespace {

void add_options(lab::OwnOptions& own) {
  own.means("--size", "Server: bytes of a batch", {1, 1 << 26});
  own.means("--iters", "Batches of each phase", {1, 1 << 24});
  own.number("--slots", settings.slots, {1, 1024}, "Server: slots of the ring");
  own.microseconds("--gap", settings.gap, {0, 60'000'000}, "Client: time between two batches");
  own.microseconds("--work", settings.work, {0, 60'000'000}, "Server: time that a batch takes");
  own.microseconds("--stall", settings.stall, {0, 60'000'000},
                   "Server: time that a slow batch takes");
  own.number("--stall-every", settings.stall_every, {1, 1 << 24},
             "Server: one batch in so many is slow");
  own.flag("!--no-credits", settings.credits,
           "Both ends: don't wait for credits, and see what is overwritten");
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "inference-ring",
                   .idea = "A ring buffer of batches: ids in imm, credits, a slow consumer",
                   .size = 4096,
                   .iters = 1000,
                   .more = add_options},
                  consumer, producer);
}
