// Lab: bulk
//
// Learn: the same bytes by RDMA and by TCP. Chunk size, signalling interval and queue depth
//        decide how often the program is involved; throughput and CPU time follow.
// Run:   verbena lab bulk                   both ends on this machine
//        verbena lab bulk server | verbena lab bulk client HOST
// Try:   --size 256M --chunks 64K --depths 1,2,4,8,16 --every 1

#include <CLI/CLI.hpp>

#include "labs/bulk/messages.h"

bulk::Sweep sweep;

namespace {

void add_options(CLI::App& app) {
  const auto list = [&app](const char* name, std::vector<std::uint64_t>& values, const char* help,
                           std::uint64_t most) {
    return app.add_option(name, values, help)
        ->delimiter(',')
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(std::uint64_t{1}, most))
        ->type_name("N,…")
        ->capture_default_str();
  };
  list("--chunks", sweep.chunks, "Bytes of one request, or of one send(2)", 1u << 30);
  list("--depths", sweep.depths, "Requests in flight at most", 1u << 20);
  list("--every", sweep.every, "Each of so many requests makes a completion", 1u << 20);
  app.final_callback([] {
    if (*std::ranges::min_element(sweep.every) <= sweep.deepest()) return;
    throw CLI::ValidationError{
        "--every", fmt::format("{} exceeds the deepest of --depths, {}: a queue full of requests "
                               "without completions never empties",
                               *std::ranges::min_element(sweep.every), sweep.deepest())};
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
