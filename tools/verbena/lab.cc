#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "settings/settings.h"
#include "tools/verbena/argv.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/lab_list.h"
#include "tools/verbena/lab_options.h"
#include "tools/verbena/lab_run.h"
#include "tools/verbena/preload.h"
#include "tools/verbena/prepared_output.h"
#include "tools/verbena/traced_child.h"

namespace verbena::tool {
namespace {

namespace fs = std::filesystem;

constexpr auto kLabUsage =
    R"(usage: verbena lab list                       lists the labs, with a line about each
       verbena lab NAME [OPTION…]             runs both ends on this machine
       verbena lab NAME server [OPTION…]      runs the server only
       verbena lab NAME client HOST [OPTION…] runs the client only, against HOST
       verbena lab NAME --ladder [OPTION…]    runs it, then draws its packets; --ladder=LINES limits
                                              the drawing (default 60, 0: no limit)
       verbena lab NAME --help                shows what NAME does, and its options
       verbena lab all [OPTION…]              runs every lab and prints a table of the results

two-qp and verbs are one process each, without server and client. Labs with ranks take
--ranks N --rank I --root HOST instead.
)";

/// The value of an option, in either spelling; empty: the option is missing.
std::string value_of(std::string_view option, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == option && i + 1 < arguments.size()) return arguments[i + 1];
    if (argument.starts_with(option) && argument.substr(option.size()).starts_with("=")) {
      return std::string{argument.substr(option.size() + 1)};
    }
  }
  return {};
}

/// Empty for a path that can't be resolved; the later open says why.
fs::path resolved(const fs::path& path) {
  std::error_code unresolved;
  const fs::path whole = fs::absolute(path, unresolved);
  return unresolved ? fs::path{} : fs::weakly_canonical(whole, unresolved);
}

/// Our devices need the preload library; other devices need the system's own libraries.
std::string prepare_environment(const std::string& library,
                                const std::vector<std::string>& arguments) {
  if (is_hardware(value_of("--device", arguments))) return "";
  const std::string pcap = value_of("--pcap", arguments), trace = value_of("--trace", arguments);
  if (!resolved(pcap).empty() && resolved(pcap) == resolved(trace)) {
    return fmt::format("--trace and --pcap name the same file {}; use two files", trace);
  }
  // Emptied here, so that both ends find it new; see `verbena run`.
  for (const std::string& path : {pcap, trace}) {
    if (path.empty()) continue;
    if (const PreparedOutput file = prepare_output(path, EarlierContent::discarded);
        !file.problem.empty()) {
      return file.problem;
    }
  }
  const auto problems = settings::read_environment(environ).problems;
  if (!problems.empty()) return problems.front();
  set_preload_environment(library);
  return "";
}

int list(const std::vector<LabEntry>& labs, const fs::path& folder) {
  for (const LabEntry& lab : labs) fmt::print("{:<18} {}\n", lab.name, lab.idea);
  const fs::path installed =
      (folder / "../../../share/doc/verbena/labs").lexically_normal();  // below the same prefix
  fmt::print("\nverbena lab NAME runs one; its README is in {}/NAME\n",
             fs::exists(installed) ? installed.string() : "labs");
  return 0;
}

bool is_known(const std::vector<LabEntry>& labs, const std::string& name) {
  return std::ranges::any_of(labs, [&](const LabEntry& l) { return l.name == name; });
}

int unknown(const std::vector<LabEntry>& labs, const std::string& name) {
  const auto meant = nearest_lab(labs, name);
  return fail("lab", kExitUsage,
              fmt::format("there is no lab \"{}\"{} verbena lab list shows all labs", name,
                          meant ? fmt::format(". Did you mean {}?", *meant) : ";"));
}

/// What --ladder or --ladder=LINES asks for.
struct Ladder {
  bool wanted = false;
  std::size_t lines = 60;  // 0: all
};

/// Takes the option out of the arguments, because the lab's program doesn't know it. Throws
/// std::invalid_argument.
Ladder take_ladder(std::vector<std::string>& arguments) {
  constexpr std::string_view kOption = "--ladder";
  Ladder ladder;
  std::erase_if(arguments, [&](std::string_view argument) {
    if (!argument.starts_with(kOption)) return false;
    const std::string_view rest = argument.substr(kOption.size());
    if (!rest.empty() && rest.front() != '=') return false;
    ladder.wanted = true;
    if (rest.empty()) return true;
    const char* const end = rest.data() + rest.size();
    const auto [stop, problem] = std::from_chars(rest.data() + 1, end, ladder.lines);
    if (problem != std::errc{} || stop != end) {
      throw std::invalid_argument{fmt::format("{}: LINES must be a number", argument)};
    }
    return true;
  });
  return ladder;
}

/// The lab as usual, then the ladder of what it did.
int run_with_ladder(const fs::path& program, TraceFile& file, std::size_t lines,
                    std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  const int status = run_child(program, arguments);
  if (status == kExitUsage || status == kExitSkipped) return status;
  std::fflush(stdout);
  if (file.is_empty()) {
    fail("lab", status, "the lab opened no device of ours: there is nothing to draw");
    return status;
  }
  fmt::print("\n");
  const int failed = report({.files = {file.path()},
                             .states = false,
                             .fold = true,
                             .lines = lines,
                             .ladders = 4,
                             .brief = true});
  if (failed != 0) file.keep("lab");
  return status != 0 ? status : failed;
}

int run_one(const fs::path& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  execv(program.c_str(), argv_of(arguments).data());
  return fail("lab", kExitFailure,
              fmt::format("{}: {}; build or install Verbena again", program.string(),
                          std::strerror(errno)));
}

std::string_view verdict_of(int status) {
  if (status == 0) return "ok";
  return status == kExitSkipped ? "skipped" : "FAILED";
}

std::string indented(std::string_view output) {
  std::string text;
  std::istringstream lines{std::string{output}};
  for (std::string line; std::getline(lines, line);) text += "    | " + line + "\n";
  return text;
}

std::string_view last_line(std::string_view output) {
  output = output.substr(0, output.find_last_not_of('\n') + 1);
  return output.substr(output.rfind('\n') + 1);
}

/// The options that each lab takes, in the order of the labs.
std::vector<TakenOptions> ask_labs(const std::vector<LabEntry>& labs, const fs::path& folder) {
  std::vector<TakenOptions> taken;
  for (const LabEntry& lab : labs) {
    taken.push_back(parse_taken_options(run_lab({folder / lab.name, "--options"}).output));
  }
  return taken;
}

/// The options that this lab takes; prints that the others are left out.
std::vector<std::string> arguments_for(const LabEntry& lab, const TakenOptions& taken,
                                       const std::vector<GivenOption>& given) {
  std::vector<std::string> arguments;
  for (const GivenOption& option : given) {
    if (taken.contains(option.name)) {
      arguments.insert(arguments.end(), option.words.begin(), option.words.end());
    } else {
      fmt::print("{:<18} runs without {}: this lab doesn't have the option\n", lab.name,
                 shell_quoted(option.words));
    }
  }
  return arguments;
}

bool asks_for_help(const std::vector<std::string>& words) {
  return std::ranges::any_of(words,
                             [](const auto& word) { return word == "--help" || word == "-h"; });
}

int run_all(const std::vector<LabEntry>& labs, const fs::path& folder,
            const std::vector<std::string>& words) {
  const auto taken = words.empty() ? std::vector<TakenOptions>(labs.size())  // nobody need ask
                                   : ask_labs(labs, folder);
  TakenOptions any;
  for (const TakenOptions& one : taken) any.insert(one.begin(), one.end());
  const GivenOptions given = split_options(words, any);
  if (!given.problem.empty()) return fail("lab", kExitUsage, given.problem);
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  int failed = 0;
  fmt::print("{:<18} {:<8} {:>7}  {}\n", "lab", "result", "time", "what it showed");
  for (std::size_t i = 0; i < labs.size(); ++i) {
    const std::string& name = labs[i].name;
    if (terminal) fmt::print("{:<18} running, {} of {}\r", name, i + 1, labs.size());
    std::fflush(stdout);
    const std::vector<std::string> arguments = arguments_for(labs[i], taken[i], given.options);
    std::vector<std::string> command{folder / name};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const LabResult result = run_lab(command);
    const std::string_view shown = shown_in(result.output);
    fmt::print("{:<18} {:<8} {:>5.1f} s  {}\n", name, verdict_of(result.status),
               static_cast<double>(result.took.count()) / 1000,
               shown.empty() ? last_line(result.output) : shown);
    if (result.status != 0 && result.status != kExitSkipped) {
      ++failed;
      fmt::print("{}    exit status {}; again: verbena lab {}{}{}\n", indented(result.output),
                 result.status, name, arguments.empty() ? "" : " ", shell_quoted(arguments));
    }
    std::fflush(stdout);
  }
  if (failed == 0) return 0;
  return fail("lab", kExitFailure, fmt::format("{} of {} labs failed", failed, labs.size()));
}

}  // namespace

std::string_view lab_usage() { return kLabUsage; }

int lab(const std::vector<std::string>& words) {
  const bool of_one_lab = !words.empty() && !words[0].starts_with("-") && words[0] != "all";
  if (words.empty() || (!of_one_lab && asks_for_help(words))) {
    fmt::print("{}", kLabUsage);
    return words.empty() ? kExitUsage : 0;
  }
  const PreloadLibrary library = find_preload_library();
  if (!library.problem.empty()) return fail("lab", kExitFailure, library.problem);
  const fs::path folder = fs::path{library.folder} / "labs";
  std::ifstream file{folder / "list.txt"};
  if (!file) {
    return fail("lab", kExitFailure,
                fmt::format("{}: {}; build or install Verbena again",
                            (folder / "list.txt").string(), std::strerror(errno)));
  }
  std::stringstream text;
  text << file.rdbuf();
  const std::vector<LabEntry> labs = parse_lab_list(text.str());

  const std::string& name = words.front();
  std::vector<std::string> arguments{words.begin() + 1, words.end()};
  if (name == "list") {
    return arguments.empty() ? list(labs, folder)
                             : fail("lab", kExitUsage, "\"verbena lab list\" takes no arguments");
  }
  try {
    std::optional<TraceFile> trace;
    const Ladder ladder = take_ladder(arguments);
    if (ladder.wanted) {
      if (!of_one_lab) return fail("lab", kExitUsage, "--ladder is for one lab, not for all");
      trace.emplace(value_of("--trace", arguments));
      if (value_of("--trace", arguments).empty()) arguments.push_back("--trace=" + trace->path());
    }
    if (const auto problem = prepare_environment(library.path, arguments); !problem.empty()) {
      return fail("lab", kExitUsage, problem);
    }
    if (name == "all") return run_all(labs, folder, arguments);
    if (trace && is_known(labs, name)) {
      return run_with_ladder(folder / name, *trace, ladder.lines, arguments);
    }
  } catch (const std::invalid_argument& error) {
    return fail("lab", kExitUsage, error.what());
  } catch (const std::system_error& error) {
    return fail("lab", kExitFailure,
                fmt::format("{}; build or install Verbena again", error.what()));
  }
  return is_known(labs, name) ? run_one(folder / name, arguments) : unknown(labs, name);
}

}  // namespace verbena::tool
