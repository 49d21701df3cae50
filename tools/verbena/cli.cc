#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "settings/fault_spec.h"
#include "settings/settings.h"
#include "tools/doctor/command_line.h"
#include "tools/transfer/options.h"
#include "tools/verbena/bench.h"
#include "tools/verbena/cli_report.h"
#include "tools/verbena/cli_top.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/description.h"

namespace verbena::tool {
namespace {

constexpr auto kExamples = R"(Examples:
  verbena devices
  verbena top
  verbena lab list
  verbena run -- ibv_devinfo -v
  verbena run -- ibv_rc_pingpong -d vb_lo -g 0 &
  verbena run -- ibv_rc_pingpong -d vb_lo -g 0 127.0.0.1)";

constexpr auto kRunExamples = R"(Examples:
  verbena run -- ib_write_bw -d vb_lo
  verbena run --log debug -- ibv_rc_pingpong -d vb_lo -g 0 127.0.0.1
  verbena run --only -- ibv_devices
  verbena run --faults drop=1%,reorder=2%,delay=2ms -- ibv_rc_pingpong -d vb_lo -g 0 -c
  verbena run --pcap out.pcapng -- rping -c -a 127.0.0.1 -C 3
  tshark -r out.pcapng --disable-protocol rpcordma
  verbena run --stats --trace out.jsonl -- ib_write_bw -d vb_lo 127.0.0.1

Exit status: that of the program; 2 if an option or VERBENA_* variable is wrong; 126 if the program
can't run on our device (the reason is printed); 127 if there is no such program.)";

constexpr auto kEnvExamples = R"text(Examples:
  eval "$(verbena env)"; ibv_devices
  eval "$(verbena env --only --faults seed=7,drop=1%)"
  verbena env --format github --pcap captures/all.pcapng >> "$GITHUB_ENV"
  verbena env --format docker > verbena.env; docker run --env-file verbena.env …
  verbena env --format systemd                    prints lines for [Service] of a unit file

For docker and systemd, name the files of --pcap, --trace and --stats as the program sees them.
A container needs Verbena at the same path. Setuid and static programs don't see our devices.

Exit status: 0; 2 if an option or VERBENA_* variable is wrong.)text";

constexpr auto kTraceExamples = R"(Examples:
  verbena trace -- sh -c 'ibv_rc_pingpong -d vb_lo -g 0 & ibv_rc_pingpong -d vb_lo -g 0 localhost'
  verbena trace --faults drop=2% --html loss.html -- PROGRAM …
  verbena trace -o out.jsonl -- PROGRAM …         keep the trace; verbena report out.jsonl reads it

PROGRAM and all processes that it starts write into one trace. Without -o the report is printed
when PROGRAM has ended, and the trace is removed.

Exit status: the program's own.)";

constexpr auto kCompletionExamples = R"text(Examples:
  source <(verbena completion bash)
  verbena completion fish > ~/.config/fish/completions/verbena.fish

make install and the packages install these scripts.)text";

constexpr auto kDevicesExamples = R"(Examples:
  verbena devices
  verbena devices --json | jq -r '.[].name // empty'

At the end, lists the interfaces without a device, with the reason (JSON: "name" is null, "problem"
has the reason).

Exit status: 0; 1 if there is no device.)";

constexpr auto kStatExamples = R"(Examples:
  verbena stat
  verbena stat --watch 1
  verbena stat --json | jq '.[] | {pid, program, ports}'

Shows your own processes in this network namespace. Bytes include IP and UDP headers. ERRORS counts
damaged packets, packets lost at a full socket, packets that the kernel refused, failed sends and
CQ overruns; --json has each under the kernel's name.

Exit status: 0, even if there is no such process.)";

constexpr auto kNetnsExamples = R"(Examples:
  verbena netns                                   starts a shell on the left, which prints help
  verbena netns left -- COMMAND                   runs a command on the left
  verbena netns right -- COMMAND                  in that shell: runs a command on the right
  verbena netns --mtu 9000 -- sh -c '
    verbena netns right -- verbena lab hello server & verbena lab hello client 10.99.0.2; wait'

Exit status: that of the command; 1 if the namespaces can't be made (the reason is printed).)";

constexpr std::array kLogLevels{"off", "error", "warn", "info", "debug"};
constexpr std::array kShells{"bash", "zsh", "fish"};
constexpr std::array kEnvFormats{"sh", "docker", "github", "systemd"};

int print(const std::string& text) {
  fmt::print("{}", text);
  return text.empty() ? kExitUsage : 0;
}

/// Empty: fine.
std::string check_faults(const std::string& spec) {
  const auto parsed = settings::parse_fault_spec(spec);
  return parsed ? "" : parsed.error().message;
}

/// CLI11 takes any next word for the value, even "--" or an option.
std::string check_file(const std::string& name) {
  if (!name.starts_with('-')) return "";
  return fmt::format("FILE is missing before \"{}\" (if the file has this name, write ./{})", name,
                     name);
}

std::string check_wire(const std::string& name) {
  settings::Settings unused;
  const auto wire = std::ranges::find(settings::variables(), "--wire", &settings::Variable::option);
  const auto set = wire->set(unused, name);
  return set ? "" : set.error().message;
}

/// The options that `verbena run` and `verbena env` share.
void add_variable_options(CLI::App* command, VariableOptions& options) {
  command->add_flag("--only", options.only, "Hide the devices of real hardware (VERBENA_ONLY=1)");
  command->add_option("--log", options.log, "Set the level of the log on stderr (VERBENA_LOG)")
      ->check(CLI::IsMember(kLogLevels));
  command
      ->add_option("--faults", options.faults,
                   "Lose, delay or damage frames that PROGRAM sends (VERBENA_FAULTS); "
                   "for both directions, give it to both ends:\n" +
                       std::string{settings::kFaultForm})
      ->type_name("SPEC")
      ->check(CLI::Validator{check_faults, ""});
  command
      ->add_option("--pcap", options.pcap,
                   "Write every frame sent and received to FILE, as pcapng (VERBENA_PCAP); "
                   "further processes add their process id to the name")
      ->type_name("FILE")
      ->check(CLI::Validator{check_file, ""});
  command
      ->add_option("--trace", options.trace,
                   "Write posts, frames, retransmissions, completions and changes of state to "
                   "FILE, as JSON lines (VERBENA_TRACE)")
      ->type_name("FILE")
      ->check(CLI::Validator{check_file, ""});
  command
      ->add_flag("--stats", options.stats,
                 "Print the counters of ports and queue pairs when PROGRAM exits, or write them "
                 "to FILE as JSON (VERBENA_STATS)")
      ->option_text("[=FILE]");
  command
      ->add_option(
          "--wire", options.wire,
          "Choose how frames move (VERBENA_WIRE): auto, through shared memory between processes of "
          "one host and else as RoCEv2 over UDP; udp, always over UDP; shm, never over UDP")
      ->type_name("NAME")
      ->check(CLI::Validator{check_wire, ""});
}

/// Takes side and command off the end of `verbena netns [--mtu N] [SIDE] [--] COMMAND…`, so that
/// CLI11 doesn't read the command's words as ours. Returns the number of words that remain.
int take_netns_command(int argc, char** argv, NetnsOptions& options) {
  if (argc < 2 || argv[1] != std::string_view{"netns"}) return argc;
  int end = 2;
  while (end < argc && argv[end] != std::string_view{"--"} && *argv[end] == '-') {
    end += argv[end] == std::string_view{"--mtu"} ? 2 : 1;
  }
  int i = end;
  if (i < argc && (argv[i] == std::string_view{"left"} || argv[i] == std::string_view{"right"})) {
    options.side = argv[i++];
  }
  if (i < argc && argv[i] == std::string_view{"--"}) ++i;
  for (; i < argc; ++i) options.command.emplace_back(argv[i]);
  return std::min(end, argc);
}

/// Newer versions of CLI11 would print a footer as one paragraph.
void keep_lines(auto& formatter) {
  if constexpr (requires { formatter.enable_footer_formatting(false); }) {
    formatter.enable_footer_formatting(false);
  }
}

/// The commands, and the options that the command line gives to each.
struct Cli {
  CLI::App app{"Verbena: a user-space RoCEv2 NIC. Runs unmodified RDMA programs on it.", "verbena"};
  RunOptions run_options;
  EnvOptions env_options;
  DevicesOptions devices_options;
  StatOptions stat_options;
  TopOptions top_options;
  MetricsOptions metrics_options;
  DoctorOptions doctor_options;
  NetnsOptions netns_options;
  std::string shell;
  std::string page;
  TraceOptions trace_options;
  ReportOptions report_options;
  BenchOptions bench_options;
  CLI::App* run = nullptr;
  CLI::App* trace = nullptr;
  CLI::App* report = nullptr;
  CLI::App* env = nullptr;
  CLI::App* stat = nullptr;
  CLI::App* top = nullptr;
  CLI::App* metrics = nullptr;
  CLI::App* doctor = nullptr;
  CLI::App* lab = nullptr;
  transfer::SendOptions send_options;
  transfer::ReceiveOptions receive_options;
  CLI::App* send = nullptr;
  CLI::App* receive = nullptr;
  CLI::App* bench = nullptr;
  CLI::App* netns = nullptr;
  CLI::App* completion = nullptr;
  CLI::App* manual = nullptr;
};

void add_run(Cli& cli) {
  cli.run = cli.app.add_subcommand(
      "run", "Run a program with Verbena's devices: verbena run -- PROGRAM …");
  add_variable_options(cli.run, cli.run_options.variables);
  cli.run->add_option("PROGRAM", cli.run_options.command, "The program and its arguments")
      ->required()
      ->type_name("[ARGUMENT…]");
  cli.run->footer(kRunExamples);
}

void add_env(Cli& cli) {
  cli.env = cli.app.add_subcommand(
      "env", "Print the variables that verbena run sets, for a shell, a service or a container");
  add_variable_options(cli.env, cli.env_options.variables);
  cli.env->add_option("--format", cli.env_options.format, "Choose the format")
      ->check(CLI::IsMember(kEnvFormats))
      ->capture_default_str();
  cli.env->footer(kEnvExamples);
}

void add_trace(Cli& cli) {
  TraceOptions& options = cli.trace_options;
  cli.trace = cli.app.add_subcommand(
      "trace", "Run a program and show what its queue pairs did: verbena trace -- PROGRAM …");
  cli.trace->add_option("-o,--output", options.output, "Keep the trace in FILE")
      ->type_name("FILE")
      ->check(CLI::Validator{check_file, ""});
  cli.trace->add_option("--html", options.html, "Write the report to FILE, as one HTML page")
      ->type_name("FILE")
      ->check(CLI::Validator{check_file, ""});
  cli.trace->add_flag("--report", options.report, "With -o, also print the report");
  cli.trace
      ->add_option("--faults", options.faults, "Faults, as for verbena run: drop=1%,delay=2ms,…")
      ->type_name("SPEC")
      ->check(CLI::Validator{check_faults, ""});
  cli.trace->add_option("PROGRAM", options.command, "The program and its arguments")
      ->required()
      ->type_name("[ARGUMENT…]");
  cli.trace->footer(kTraceExamples);
}

void add_devices(Cli& cli) {
  CLI::App* const devices =
      cli.app.add_subcommand("devices", "Show the devices, their ports and addresses");
  devices->add_flag("--json", cli.devices_options.json, "Print JSON");
  devices->footer(kDevicesExamples);
}

void add_stat(Cli& cli) {
  cli.stat = cli.app.add_subcommand("stat",
                                    "Show the processes that use the devices, with their counters");
  cli.stat->add_flag("--json", cli.stat_options.json, "Print JSON");
  cli.stat
      ->add_option("--watch", cli.stat_options.watch,
                   "Repeat every SECONDS, until interrupted; in a terminal, this is verbena top")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 86400.0));
  cli.stat->footer(kStatExamples);
}

/// The lab itself reads its options, --help too.
void add_lab(Cli& cli) {
  cli.lab = cli.app.add_subcommand(
      "lab", "Learn by running: verbena lab list, verbena lab NAME, verbena lab all");
  cli.lab->prefix_command();
  cli.lab->set_help_flag();
  cli.lab->footer(std::string{lab_usage()});
}

void add_netns(Cli& cli) {
  cli.netns = cli.app.add_subcommand(
      "netns",
      "Make two hosts on one machine, without root: verbena netns [left|right] [-- COMMAND…]");
  cli.netns->add_option("--mtu", cli.netns_options.mtu, "Set the MTU of the cable between them")
      ->check(CLI::Range(1280, 9000))
      ->capture_default_str();
  cli.netns->footer(kNetnsExamples);
}

void add_texts(Cli& cli) {
  cli.completion = cli.app.add_subcommand("completion", "Print the completion script for a shell");
  cli.completion->add_option("SHELL", cli.shell, "The shell")
      ->required()
      ->check(CLI::IsMember(kShells));
  cli.completion->footer(kCompletionExamples);

  cli.manual = cli.app.add_subcommand("manual", "Print the manual page of a command, for man -l");
  cli.manual->group("");
  cli.manual->add_option("COMMAND", cli.page, "The command; without it, verbena itself");
}

/// In the order of --help.
void add_commands(Cli& cli) {
  cli.app.set_version_flag("--version", "verbena " VERBENA_VERSION);
  cli.app.require_subcommand(1);
  cli.app.footer(kExamples);
  keep_lines(*cli.app.get_formatter());
  add_run(cli);
  add_trace(cli);
  cli.report = add_report(cli.app, cli.report_options, CLI::Validator{check_file, ""});
  add_env(cli);
  add_devices(cli);
  add_stat(cli);
  cli.top = add_top(cli.app, cli.top_options);
  cli.metrics = add_metrics(cli.app, cli.metrics_options);
  cli.doctor = add_doctor(cli.app, cli.doctor_options);
  cli.send = transfer::add_send(cli.app, cli.send_options);
  cli.receive = transfer::add_receive(cli.app, cli.receive_options);
  add_lab(cli);
  cli.bench = add_bench(cli.app, cli.bench_options);
  add_netns(cli);
  add_texts(cli);
}

int execute(Cli& cli, char** argv) {
  if (cli.netns->parsed()) return netns(cli.netns_options);
  if (cli.send->parsed()) return transfer(cli.send_options.common.device, argv);
  if (cli.receive->parsed()) return transfer(cli.receive_options.common.device, argv);
  if (cli.lab->parsed()) return lab(cli.lab->remaining());
  if (cli.bench->parsed()) return bench(cli.bench_options);
  if (cli.stat->parsed()) return stat(cli.stat_options, argv);
  if (cli.top->parsed()) return top(cli.top_options, argv);
  if (cli.metrics->parsed()) return metrics(cli.metrics_options, argv);
  if (cli.doctor->parsed()) return doctor(cli.doctor_options, argv);
  if (cli.trace->parsed()) return trace(cli.trace_options);
  if (cli.report->parsed()) return report(cli.report_options);
  if (cli.env->parsed()) return env(cli.env_options);
  if (cli.completion->parsed()) return print(completion(describe(cli.app), cli.shell));
  if (cli.manual->parsed()) return print(manual_page(describe(cli.app), cli.page));
  return cli.run->parsed() ? run(cli.run_options) : devices(cli.devices_options, argv);
}

}  // namespace

int fail(std::string_view command, int status, std::string_view message) {
  // Not fmt::print: it throws if the terminal is gone.
  std::fputs(fmt::format("verbena {}: {}\n", command, message).c_str(), stderr);
  return status;
}

int main_of_verbena(int argc, char** argv) {
  Cli cli;
  add_commands(cli);
  const auto commands = cli.app.get_subcommands([](const CLI::App*) { return true; });
  if (argc > 1 && *argv[1] != '-' &&
      std::ranges::none_of(commands, [&](CLI::App* c) { return c->get_name() == argv[1]; })) {
    fmt::print(stderr, "verbena: there is no command \"{}\"; verbena --help lists them\n", argv[1]);
    return kExitUsage;
  }
  try {
    argc = take_netns_command(argc, argv, cli.netns_options);
    cli.app.parse(argc, argv);
  } catch (const CLI::ExtrasError& error) {
    cli.app.exit(error);
    if (cli.run->parsed() || cli.trace->parsed()) fmt::print(stderr, "Put -- before PROGRAM.\n");
    return kExitUsage;
  } catch (const CLI::ParseError& error) {
    return cli.app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return execute(cli, argv);
}

}  // namespace verbena::tool
