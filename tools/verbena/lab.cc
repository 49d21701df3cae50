#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "settings/settings.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/lab_list.h"
#include "tools/verbena/lab_run.h"
#include "tools/verbena/output_file.h"
#include "tools/verbena/preload.h"

namespace verbena::tool {
namespace {

namespace fs = std::filesystem;

constexpr auto kUsage = R"(usage: verbena lab list                       the labs, an idea each
       verbena lab NAME [OPTION…]             both ends on this machine
       verbena lab NAME server [OPTION…]      one end here …
       verbena lab NAME client HOST [OPTION…] … and one there
       verbena lab NAME --help                what NAME does, and its options
       verbena lab all [OPTION…]              every one, and a table of the results
)";

int fail(int status, std::string_view message) {
  fmt::print(stderr, "verbena lab: {}\n", message);
  return status;
}

/// What an option's value is, in either spelling; empty: it isn't there.
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

bool is_hardware(std::string_view device) { return !device.empty() && !device.starts_with("vb_"); }

/// Our devices come with the preload library; for others the system's own libraries are right.
std::string prepare_environment(const std::string& library,
                                const std::vector<std::string>& arguments) {
  if (is_hardware(value_of("--device", arguments))) return "";
  // Emptied here, so that both ends find it new; see `verbena run`.
  for (const char* const option : {"--pcap", "--trace"}) {
    const std::string path = value_of(option, arguments);
    if (path.empty()) continue;
    if (const OutputFile file = prepare_output(path); !file.problem.empty()) return file.problem;
  }
  const auto problems = settings::read_environment(environ).problems;
  if (!problems.empty()) return problems.front();
  set_preload_environment(library);
  return "";
}

int list(const std::vector<LabEntry>& labs) {
  for (const LabEntry& lab : labs) fmt::print("{:<18} {}\n", lab.name, lab.idea);
  fmt::print("\nverbena lab NAME runs one; its README: labs/NAME/README.md\n");
  return 0;
}

int unknown(const std::vector<LabEntry>& labs, const std::string& name) {
  const auto meant = nearest_lab(labs, name);
  return fail(kExitUsage, fmt::format("there is no lab \"{}\"{}; verbena lab list shows them", name,
                                      meant ? fmt::format(": did you mean {}?", *meant) : ""));
}

int run_one(const fs::path& program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return fail(kExitFailure, fmt::format("{}: {}; build or install Verbena again", program.string(),
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

int run_all(const std::vector<LabEntry>& labs, const fs::path& folder,
            const std::vector<std::string>& arguments) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  int failed = 0;
  fmt::print("{:<18} {:<8} {:>7}  {}\n", "lab", "result", "time", "what it showed");
  for (std::size_t i = 0; i < labs.size(); ++i) {
    const std::string& name = labs[i].name;
    if (terminal) fmt::print("{:<18} running, {} of {}\r", name, i + 1, labs.size());
    std::fflush(stdout);
    std::vector<std::string> command{folder / name};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const LabResult result = run_lab(command);
    const std::string_view shown = shown_in(result.output);
    fmt::print("{:<18} {:<8} {:>5.1f} s  {}\n", name, verdict_of(result.status),
               static_cast<double>(result.took.count()) / 1000,
               shown.empty() ? last_line(result.output) : shown);
    if (result.status != 0 && result.status != kExitSkipped) {
      ++failed;
      fmt::print("{}    exit status {}; again: verbena lab {}\n", indented(result.output),
                 result.status, name);
    }
    std::fflush(stdout);
  }
  if (failed == 0) return 0;
  return fail(kExitFailure, fmt::format("{} of {} labs failed", failed, labs.size()));
}

}  // namespace

int lab(const std::vector<std::string>& words) {
  if (words.empty() || words.front() == "--help" || words.front() == "-h") {
    fmt::print("{}", kUsage);
    return words.empty() ? kExitUsage : 0;
  }
  const PreloadLibrary library = find_preload_library();
  if (!library.problem.empty()) return fail(kExitFailure, library.problem);
  const fs::path folder = fs::path{library.path}.parent_path() / "labs";
  std::ifstream file{folder / "list.txt"};
  if (!file) {
    return fail(kExitFailure, fmt::format("{}: {}; build or install Verbena again",
                                          (folder / "list.txt").string(), std::strerror(errno)));
  }
  std::stringstream text;
  text << file.rdbuf();
  const std::vector<LabEntry> labs = parse_lab_list(text.str());

  const std::string& name = words.front();
  const std::vector<std::string> arguments{words.begin() + 1, words.end()};
  if (name == "list") return list(labs);
  if (const auto problem = prepare_environment(library.path, arguments); !problem.empty()) {
    return fail(kExitUsage, problem);
  }
  if (name == "all") return run_all(labs, folder, arguments);
  const bool known = std::ranges::any_of(labs, [&](const LabEntry& l) { return l.name == name; });
  return known ? run_one(folder / name, arguments) : unknown(labs, name);
}

}  // namespace verbena::tool
