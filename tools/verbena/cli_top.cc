#include "tools/verbena/cli_top.h"

#include <CLI/CLI.hpp>
#include <array>

namespace verbena::tool {
namespace {

constexpr auto kTopExamples = R"(Examples:
  verbena top
  verbena top --view queue-pairs --sort again/s
  verbena top --once --filter ib_write_bw
  verbena top --once --json | jq '.processes[].queue_pairs[] | {qp, state, rates}'

Shows your own processes in this network namespace, their queue pairs, and the devices: Verbena's,
and those of the kernel (hardware, SoftRoCE) by their counters. The last line of the screen has the
keys, ? explains them. --once prints the rates between two looks.

Exit status: 0; 1 if the processes can't be asked; 2 if there is no terminal (use --once).)";

constexpr auto kMetricsExamples = R"(Examples:
  verbena metrics
  verbena metrics --listen 127.0.0.1:9464 &
  curl http://127.0.0.1:9464/metrics

Prints metrics in Prometheus' text format, or serves them until SIGTERM or Ctrl-C. It has your own
processes in this network namespace, and the devices of the kernel. There is no password: every user
of this machine can read them.

Exit status: 0; 1 if it can't listen, or the processes can't be asked; 2 if an option is wrong.)";

constexpr std::array kViews{"processes", "queue-pairs", "devices"};

}  // namespace

CLI::App* add_top(CLI::App& app, TopOptions& options) {
  CLI::App* const top = app.add_subcommand(
      "top", "Watch processes, queue pairs and devices in the terminal, with their rates");
  CLI::Option* const once = top->add_flag("--once", options.once, "Print once, and end");
  top->add_flag("--json", options.json, "With --once, print JSON")->needs(once);
  top->add_option("--interval", options.interval, "Set the time from one look to the next")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  top->add_option("--view", options.view, "Show this table; without --once, at first")
      ->check(CLI::IsMember(kViews));
  top->add_option("--sort", options.sort, "Sort by the column with this title, such as rcvd/s")
      ->type_name("TITLE");
  top->add_option("--filter", options.filter, "Show only rows that contain TEXT")
      ->type_name("TEXT");
  top->footer(kTopExamples);
  return top;
}

CLI::App* add_metrics(CLI::App& app, MetricsOptions& options) {
  CLI::App* const metrics =
      app.add_subcommand("metrics", "Print the counters for Prometheus, or serve them by HTTP");
  metrics
      ->add_option("--listen", options.listen,
                   "Serve http://ADDRESS:PORT/metrics; the address is one of this machine's "
                   "loopback interface, port 0 any free port")
      ->type_name("ADDRESS:PORT");
  metrics->add_flag("--allow-remote", options.allow_remote,
                    "Let --listen take an address that other machines reach");
  metrics
      ->add_option("--queue-pairs", options.queue_pairs,
                   "Give metrics of their own to COUNT queue pairs of each process, at most")
      ->type_name("COUNT")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  metrics->footer(kMetricsExamples);
  return metrics;
}

}  // namespace verbena::tool
