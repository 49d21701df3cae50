#include <CLI/CLI.hpp>
#include <limits>

#include "tools/verbena/bench.h"

namespace verbena::tool {
namespace {

constexpr auto kBenchExamples = R"(Examples:
  verbena bench --quick                           both ends here, under a minute
  verbena bench --html bench.html                 one page with plots, for any browser
  verbena bench server                            on one host, then on the other:
  verbena bench 192.0.2.1 --json new.json
  verbena bench --sizes 64,4K,1M --operations write,read --queue-pairs 1,8
  verbena bench --only 'tcp|write' --rounds 9
  verbena bench --quick --compare old.json --fail

Measures RDMA, TCP and, as limits, raw UDP, memcpy and bare loops between two processes, in turn.
Prints medians of the rounds with their intervals of confidence. If the noise is larger than a
difference, it says so instead of a verdict.

The server answers anyone who reaches its port, for one measurement at a time; run it on networks
that you trust, and end it afterwards.

Exit status: 0; 1 if a measurement failed, or if with --fail something is slower than in OLD.json;
2 if an option is wrong; 130 if interrupted.)";

void add_choices(CLI::App* command, BenchOptions& options) {
  const auto list = [&](const char* name, auto& values, const char* text, const char* type) {
    return command->add_option(name, values, text)->delimiter(',')->type_name(type);
  };
  list("--sizes", options.sizes, "Measure messages of these sizes, such as 64,4K,1M", "BYTES,…");
  list("--depths", options.depths, "Keep so many requests in flight on each queue pair", "N,…");
  list("--queue-pairs", options.queue_pairs, "Use so many queue pairs", "N,…");
  list("--operations", options.operations, "Choose from write, send, read", "NAME,…")
      ->check(CLI::IsMember({"write", "send", "read"}).description(""));
  list("--services", options.services, "Choose from RC, UC, UD", "NAME,…")
      ->check(CLI::IsMember({"RC", "UC", "UD"}).description(""));
  list("--completions", options.completions, "Choose from polling, events", "NAME,…")
      ->check(CLI::IsMember({"polling", "events"}).description(""));
  list("--losses", options.losses, "Lose so many percent of the sent packets on purpose",
       "PERCENT,…")
      ->check(CLI::Range(0.0, 99.0).description(""));
}

void add_files(CLI::App* command, BenchOptions& options) {
  command->add_option("--json", options.json, "Write all rounds to FILE, as JSON")
      ->type_name("FILE");
  command->add_option("--csv", options.csv, "Write a line for each figure to FILE, as CSV")
      ->type_name("FILE");
  command->add_option("--html", options.html, "Write one page with plots to FILE")
      ->type_name("FILE");
  command
      ->add_option("--compare", options.compare,
                   "Name what changed beyond noise since the run that wrote FILE by --json")
      ->type_name("FILE")
      ->check(CLI::ExistingFile.description(""));
  command->add_flag("--fail", options.fail, "With --compare: exit status 1 if something is slower");
}

}  // namespace

CLI::App* add_bench(CLI::App& app, BenchOptions& options) {
  CLI::App* const command = app.add_subcommand(
      "bench",
      "Measure RDMA beside TCP and the limits of the machine: verbena bench [server | HOST]");
  command->add_option(
      "HOST", options.target,
      "The host of the other end, or the word server; without it both ends are here");
  auto* const quick = command->add_flag("--quick", options.quick, "Take less than a minute");
  command->add_flag("--full", options.full, "Take more sizes and more rounds")->excludes(quick);
  command->add_option("--rounds", options.rounds, "Measure everything so many times")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  command->add_option("--seconds", options.seconds, "Measure for so long in each round")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.001, 600.0));
  command->add_option("--only", options.only, "Measure only what this regular expression finds")
      ->type_name("REGEX");
  command->add_flag("--list", options.list, "Print what would be measured");
  add_choices(command, options);
  command->add_option("--device", options.device, "Use this device at this end")->type_name("NAME");
  command->add_option("--port", options.port, "Use this TCP and UDP port of the server")
      ->type_name("PORT")
      ->capture_default_str();
  add_files(command, options);
  command->footer(kBenchExamples);
  return command;
}

}  // namespace verbena::tool
