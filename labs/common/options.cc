#include "labs/common/options.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "labs/common/exit_status.h"
#include "labs/common/negative.h"
#include "rdma++/device.h"
#include "settings/fault_spec.h"

namespace lab {
namespace {

constexpr auto kFooter =
    R"(Sizes take K, M, G (powers of 1024). Faults change the packets that each end sends.

Exit status: 0 if shown and checked; 1 if it failed (the reason is printed); 2 if an option is
wrong; 77 if skipped, because the device can't do it (the reason is printed).)";

/// Options that Verbena's device itself serves, through its variables.
struct DeviceOptions {
  std::array<std::pair<const char*, std::string>, 7> faults{{{"drop", ""},
                                                             {"dup", ""},
                                                             {"reorder", ""},
                                                             {"corrupt", ""},
                                                             {"delay", ""},
                                                             {"rate", ""},
                                                             {"seed", ""}}};
  std::string pcap;
  std::string trace;
};

std::string memory_problem(const std::string& text) {
  std::uint64_t bytes = 0;
  struct sysinfo info {};
  if (!CLI::detail::lexical_cast(text, bytes) || sysinfo(&info) != 0) return "";
  const std::uint64_t memory = std::uint64_t{info.totalram} * info.mem_unit;
  if (bytes == 0) return "0 bytes: choose at least 1";
  if (bytes > memory / 4) {
    return fmt::format(
        "{} bytes is more than a quarter of this machine's memory ({} bytes): "
        "choose less",
        bytes, memory);
  }
  return "";
}

/// A comma would begin another fault, which no option asked for.
std::string one_value(const std::string& text) {
  if (text.find(',') == std::string::npos) return "";
  return fmt::format("\"{}\": give one value; each fault has its own option", text);
}

void add_device_options(CLI::App& app, DeviceOptions& options) {
  constexpr std::array kMeanings{"Drop this share of the packets, for example 1%",
                                 "Send this share of the packets twice",
                                 "Let this share of the packets arrive late, after others",
                                 "Flip a bit in this share of the packets",
                                 "Delay each packet, for example 2ms, or 2ms~0.5ms with jitter",
                                 "Limit the rate, for example to 100Mbit",
                                 "Seed of the random numbers that choose the packets"};
  for (std::size_t i = 0; i < options.faults.size(); ++i) {
    auto& [name, value] = options.faults[i];
    const std::string also = name == std::string_view{"dup"} ? ",--duplicate" : "";
    app.add_option(fmt::format("--{}{}", name, also), value, kMeanings[i])
        ->check(CLI::Validator{one_value, ""})
        ->group("Faults");
  }
  app.add_option("--pcap", options.pcap, "Record the packets, for Wireshark")->type_name("FILE");
  app.add_option("--trace", options.trace, "Record posts, packets and completions, as JSON lines")
      ->type_name("FILE");
}

std::string fault_spec(const DeviceOptions& options) {
  std::string spec;
  for (const auto& [name, value] : options.faults) {
    if (!value.empty()) spec += fmt::format("{}{}={}", spec.empty() ? "" : ",", name, value);
  }
  return spec;
}

/// The device reads them when it is opened first.
void hand_over(const DeviceOptions& device_options, const Options& options) {
  const std::string spec = fault_spec(device_options);
  if (const auto parsed = verbena::settings::parse_fault_spec(spec); !spec.empty() && !parsed) {
    throw CLI::ValidationError{"faults", parsed.error().message};
  }
  const bool ours = options.device.empty() || rdma::is_verbena(options.device);
  if (!ours && !(spec + device_options.pcap + device_options.trace).empty()) {
    throw CLI::ValidationError{
        "--device", fmt::format("{} is not a device of Verbena; faults, --pcap and --trace need "
                                "one (vb_…)",
                                options.device)};
  }
  if (!spec.empty()) setenv("VERBENA_FAULTS", spec.c_str(), 1);
  if (!device_options.pcap.empty()) setenv("VERBENA_PCAP", device_options.pcap.c_str(), 1);
  if (!device_options.trace.empty()) setenv("VERBENA_TRACE", device_options.trace.c_str(), 1);
  // The wire on which every packet can be seen, unless the user chose one.
  const bool looks = !(device_options.pcap + device_options.trace).empty();
  if (looks) setenv("VERBENA_WIRE", "udp", 0);
  if (options.stats && ours) setenv("VERBENA_STATS", "-", 1);
}

void add_common_options(CLI::App& app, Options& options) {
  app.add_option("--device", options.device, "The device [the one that reaches HOST]");
  app.add_option("--port", options.port, "Port of the server; if both ends run here: any free port")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  app.add_option("--size", options.size, "Bytes of a message or a buffer")
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator{negative_problem, ""})  // the last that is added looks first
      ->check(memory_problem)
      ->type_name("BYTES")
      ->capture_default_str();
  app.add_option("--iters", options.iters, "Number of rounds")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
      ->type_name("COUNT")
      ->capture_default_str();
  app.add_option("--timeout", options.timeout, "Give up after this many seconds")
      ->check(CLI::Range(1u, 86'400u))
      ->capture_default_str();
  app.add_flag("--stats", options.stats, "Print at the end what the work cost");
}

}  // namespace

namespace {

void check_size(const Options& options, const Defaults& defaults) {
  if (options.size >= defaults.least && options.size <= defaults.most) return;
  throw CLI::ValidationError{fmt::format("--size: {} is not between {} and {}", options.size,
                                         defaults.least, defaults.most)};
}

/// For whoever hands the same options to several labs.
void print_options(const CLI::App& app) {
  for (const CLI::Option* const option : app.get_options()) {
    const bool valued = option->get_items_expected_max() > 0;
    for (const std::string& name : option->get_lnames()) {
      fmt::print("--{}{}\n", name, valued ? " VALUE" : "");
    }
  }
}

/// What to say to somebody who takes the lab for one with a server and a client; empty: nobody
/// does.
std::string refuse_ends(const CLI::App& app, int argc, char** argv) {
  const bool asked = std::any_of(argv + 1, argv + argc, [](std::string_view argument) {
    return argument == "server" || argument == "client";
  });
  if (!asked) return "";
  return app.get_option_no_throw("--rank") != nullptr
             ? "this lab has ranks, not a server and a client: on each host, "
               "--ranks N --rank I --root HOST"
             : "this lab has both its ends in one process: it needs no server and no client";
}

/// Newer versions of CLI11 would set a footer as one paragraph.
void keep_lines(auto& formatter) {
  if constexpr (requires { formatter.enable_footer_formatting(false); }) {
    formatter.enable_footer_formatting(false);
  }
}

}  // namespace

Options parse(int argc, char** argv, const Defaults& defaults) {
  CLI::App app{defaults.idea, std::string{"verbena lab "} + defaults.name};
  app.footer(kFooter);
  keep_lines(*app.get_formatter());
  app.fallthrough();
  Options options;
  options.lab = defaults.name;
  options.layout = defaults.layout;
  options.size = defaults.size;
  options.iters = defaults.iters;
  options.port = defaults.port;
  DeviceOptions device_options;
  add_common_options(app, options);
  add_device_options(app, device_options);
  CLI::App* server = nullptr;
  CLI::App* client = nullptr;
  if (defaults.two_ends) {
    server = app.add_subcommand("server", "Run only the server");
    client = app.add_subcommand("client", "Run only the client; the server is on HOST");
    client->add_option("HOST", options.host, "The server's name or address")->required();
    app.require_subcommand(0, 1);
  }
  if (defaults.more) {
    OwnOptions own{app};
    defaults.more(own);
  }
  for (const std::string& name : defaults.without) app.remove_option(app.get_option(name));
  if (argc == 2 && argv[1] == std::string_view{"--options"}) {
    print_options(app);
    throw Answered{0};
  }
  try {
    const std::string refusal = defaults.two_ends ? "" : refuse_ends(app, argc, argv);
    if (!refusal.empty()) throw CLI::ValidationError{refusal};
    app.parse(argc, argv);
    check_size(options, defaults);
    hand_over(device_options, options);
  } catch (const CLI::ParseError& error) {
    throw Answered{app.exit(error) == 0 ? 0 : kUsage};
  }
  if (server != nullptr && server->parsed()) options.role = Role::server;
  if (client != nullptr && client->parsed()) options.role = Role::client;
  const CLI::Option* const port = app.get_option_no_throw("--port");
  options.port_given = port != nullptr && port->count() > 0;
  options.deadline = std::chrono::steady_clock::now() + std::chrono::seconds{options.timeout};
  return options;
}

}  // namespace lab
