// `verbena bench`: measures, prints the table, writes the files.

#include "tools/verbena/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "tools/bench/compare.h"
#include "tools/bench/csv.h"
#include "tools/bench/page.h"
#include "tools/bench/plan.h"
#include "tools/bench/results_json.h"
#include "tools/bench/session.h"
#include "tools/bench/table.h"
#include "tools/verbena/argv.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/preload.h"
#include "tools/verbena/prepared_output.h"

namespace verbena::tool {
namespace {

constexpr int kExitInterrupted = 130;

std::atomic<bool> stop{false};

/// The programs that measure get the signal, too, if it comes from the terminal.
void stop_on_interrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop = true; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

/// "64", "4K", "1M". Throws std::invalid_argument.
std::uint64_t bytes_of(const std::string& text) {
  constexpr std::string_view kUnits = "KMG";
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, value);
  const std::size_t unit = end - rest == 1 ? kUnits.find(*rest)
                           : rest == end   ? 0
                                           : std::string_view::npos;
  if (problem != std::errc{} || unit == std::string_view::npos) {
    throw std::invalid_argument{fmt::format("\"{}\" is no size, such as 64, 4K or 1M", text)};
  }
  return rest == end ? value : value << (10 * (unit + 1));
}

bench::Plan plan_of(const BenchOptions& options) {
  bench::Wishes wishes{.plan = options.quick  ? "quick"
                               : options.full ? "full"
                                              : "normal",
                       .rounds = options.rounds,
                       .seconds = options.seconds,
                       .depths = options.depths,
                       .queue_pairs = options.queue_pairs,
                       .operations = options.operations,
                       .services = options.services,
                       .completions = options.completions,
                       .losses = options.losses,
                       .only = options.only,
                       .one_host = options.target.empty()};
  for (const std::string& size : options.sizes) wishes.sizes.push_back(bytes_of(size));
  return bench::make_plan(wishes);
}

int list(const bench::Plan& plan) {
  for (const bench::Spec& spec : plan.specs) {
    fmt::print("{:<10} {:<9} {}\n", spec.test, bench::size_text(spec.size), bench::title_of(spec));
  }
  return 0;
}

/// Returns only when it can't be started.
int serve(const BenchOptions& options, const std::string& ends) {
  std::vector<std::string> command{ends};
  if (!options.device.empty()) command.insert(command.end(), {"--device", options.device});
  command.insert(command.end(), {"serve", std::to_string(options.port)});
  execv(ends.c_str(), argv_of(command).data());
  return fail("bench", kExitFailure, fmt::format("{}: {}", ends, std::strerror(errno)));
}

/// The files are looked at before minutes of measuring: empty, or what is wrong.
std::string problem_of_files(const BenchOptions& options) {
  for (const std::string& name : {options.json, options.csv, options.html}) {
    if (name.empty()) continue;
    if (auto file = prepare_output(name, EarlierContent::kept); !file.problem.empty()) {
      return file.problem;
    }
  }
  return "";
}

/// Throws std::runtime_error.
void write_file(const std::string& name, const std::string& text) {
  std::ofstream file{name, std::ios::binary | std::ios::trunc};
  file << text;
  file.close();
  if (!file) throw std::runtime_error{fmt::format("{}: {}", name, std::strerror(errno))};
}

void write_files(const BenchOptions& options, const bench::Results& results) {
  if (!options.json.empty()) write_file(options.json, bench::json_of(results).dump(1) + "\n");
  if (!options.csv.empty()) write_file(options.csv, bench::csv_of(results));
  if (!options.html.empty()) write_file(options.html, bench::page_of(results));
}

std::string read_file(const std::string& name) {
  std::ifstream file{name, std::ios::binary};
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error{fmt::format("{}: {}", name, std::strerror(errno))};
  return text.str();
}

/// The earlier run, before anything is measured. Throws std::runtime_error.
std::optional<bench::Results> earlier(const BenchOptions& options) {
  if (options.compare.empty()) return std::nullopt;
  return bench::results_of(read_file(options.compare), options.compare);
}

int run_plan(const BenchOptions& options, const std::string& folder, const bench::Plan& plan) {
  const std::optional<bench::Results> before = earlier(options);
  stop_on_interrupt();
  const bench::Results results =
      bench::measure(plan, {folder, options.target, options.port, options.device, &stop});
  if (results.measured.empty() && !results.broken_off.empty()) {
    return fail("bench", kExitFailure, results.broken_off);
  }
  fmt::print("{}", bench::table_of(results));
  write_files(options, results);
  std::size_t slower = 0;
  if (before) {
    const auto comparison = bench::compare(*before, results);
    fmt::print("\n{}", bench::text_of(comparison, options.compare));
    slower = comparison.slower();
  }
  if (stop) return fail("bench", kExitInterrupted, "interrupted: this is what was measured");
  if (!results.broken_off.empty()) {
    return fail("bench", kExitFailure, "broken off: " + results.broken_off);
  }
  if (options.fail && slower > 0) {
    return fail("bench", kExitFailure,
                fmt::format("{} figures are slower than in {}", slower, options.compare));
  }
  return results.failed.empty() ? 0 : kExitFailure;
}

}  // namespace

int bench(const BenchOptions& options) {
  const PreloadLibrary library = find_preload_library();
  if (!library.problem.empty()) return fail("bench", kExitFailure, library.problem);
  const std::string folder = library.folder + "/bench";
  if (access((folder + "/ends").c_str(), X_OK) != 0) {
    return fail(
        "bench", kExitFailure,
        fmt::format("{}/ends: {}; build or install Verbena again", folder, std::strerror(errno)));
  }
  set_preload_environment(library.path);
  if (options.target == "server") return serve(options, folder + "/ends");
  bench::Plan plan;
  try {
    plan = plan_of(options);
  } catch (const std::invalid_argument& error) {
    return fail("bench", kExitUsage, error.what());
  }
  if (options.list) return list(plan);
  if (auto problem = problem_of_files(options); !problem.empty()) {
    return fail("bench", kExitUsage, problem);
  }
  try {
    return run_plan(options, folder, plan);
  } catch (const std::runtime_error& error) {
    return fail("bench", kExitFailure, error.what());
  }
}

}  // namespace verbena::tool
