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

#include <CLI/CLI.hpp>

#include "labs/inference-ring/settings.h"

Settings settings;

namespace {

void add_time(CLI::App& app, const char* name, std::chrono::microseconds& value, const char* help,
              int least) {
  app.add_option_function<std::int64_t>(
         name, [&value](std::int64_t us) { value = std::chrono::microseconds{us}; }, help)
      ->check(CLI::Range(std::int64_t{least}, std::int64_t{60'000'000}))
      ->type_name("MICROSECONDS")
      ->default_str(std::to_string(value.count()));
}

void add_options(CLI::App& app) {
  app.get_option("--size")
      ->description("Server: bytes of a batch")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 26));
  app.get_option("--iters")
      ->description("Batches of each phase")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 24));
  app.add_option("--slots", settings.slots, "Server: of the ring")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_time(app, "--gap", settings.gap, "Client: between two batches", 0);
  add_time(app, "--work", settings.work, "Server: what a batch takes", 0);
  add_time(app, "--stall", settings.stall, "Server: what a slow one takes", 0);
  app.add_option("--stall-every", settings.stall_every, "Server: each of so many is slow")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_flag_function(
      "--no-credits", [](std::int64_t) { settings.credits = false; },
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
