#include "settings/settings.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace verbena::settings {
namespace {

constexpr std::string_view kPrefix = "VERBENA_";

constexpr std::array<std::pair<std::string_view, LogLevel>, 5> kLevels{{
    {"off", LogLevel::off},
    {"error", LogLevel::error},
    {"warn", LogLevel::warn},
    {"info", LogLevel::info},
    {"debug", LogLevel::debug},
}};

constexpr std::array<std::pair<std::string_view, WireKind>, 3> kWires{{
    {"auto", WireKind::automatic},
    {"shm", WireKind::shm},
    {"udp", WireKind::udp},
}};

Status set_log(Settings& s, std::string_view value) {
  for (const auto& [name, level] : kLevels) {
    if (value != name) continue;
    s.log = level;
    return Ok{};
  }
  return Error{EINVAL,
               "\"" + std::string{value} + "\" is not valid; use off, error, warn, info or debug"};
}

Status set_only(Settings& s, std::string_view value) {
  if (value != "0" && value != "1") {
    return Error{EINVAL, "\"" + std::string{value} + "\" is not valid; use 0 or 1"};
  }
  s.only = value == "1";
  return Ok{};
}

Status set_faults(Settings& s, std::string_view value) {
  auto spec = parse_fault_spec(value);
  if (!spec) return spec.error();
  s.faults = *spec;
  return Ok{};
}

Status set_wire(Settings& s, std::string_view value) {
  for (const auto& [name, kind] : kWires) {
    if (value != name) continue;
    s.wire = kind;
    return Ok{};
  }
  return Error{EINVAL, "\"" + std::string{value} + "\" is not a wire; use auto, shm or udp"};
}

Status set_file(std::string& file, std::string_view value) {
  file = value;
  return Ok{};
}

constexpr std::array kVariables{
    Variable{"VERBENA_LOG", "--log", "off|error|warn|info|debug", "what is logged to stderr",
             set_log},
    Variable{"VERBENA_ONLY", "--only", "0|1", "1 hides the devices of real hardware", set_only},
    Variable{"VERBENA_FAULTS", "--faults", "SPEC",
             "lose, delay or damage frames that leave, for example drop=1%,delay=2ms", set_faults},
    Variable{"VERBENA_PCAP", "--pcap", "FILE", "write every frame, as pcapng",
             [](Settings& s, std::string_view v) { return set_file(s.pcap, v); }},
    Variable{"VERBENA_TRACE", "--trace", "FILE",
             "write posts, frames, retries and completions, as JSON lines",
             [](Settings& s, std::string_view v) { return set_file(s.trace, v); }},
    Variable{"VERBENA_STATS", "--stats", "-|FILE",
             "print counters at the end: - as a table to stderr, FILE as JSON",
             [](Settings& s, std::string_view v) { return set_file(s.stats, v); }},
    Variable{"VERBENA_WIRE", "--wire", "auto|shm|udp",
             "how frames move: auto takes shared memory between processes of this host", set_wire},
};

std::string list_of_variables() {
  std::string text;
  for (const Variable& v : kVariables) {
    text.append("\n  ").append(v.name).append("=").append(v.form).append("  ").append(v.meaning);
  }
  return text;
}

bool is_variable(std::string_view name) {
  return std::ranges::find(kVariables, name, &Variable::name) != kVariables.end();
}

}  // namespace

std::span<const Variable> variables() { return kVariables; }

Status set(Settings& settings, std::string_view name, std::string_view value) {
  const std::string who{name};
  for (const Variable& v : kVariables) {
    if (v.name != name) continue;
    auto done = v.set(settings, value);
    return done ? done : Error{done.error().code, who + ": " + done.error().message};
  }
  return Error{EINVAL, who + ": there is no such variable; use one of" + list_of_variables()};
}

Reading read_environment(const char* const* environment) {
  Reading reading;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry{*environment};
    const auto equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    // CI sets an empty value if a job has none.
    if (equals + 1 == entry.size() && is_variable(entry.substr(0, equals))) continue;
    const auto done = set(reading.settings, entry.substr(0, equals), entry.substr(equals + 1));
    if (!done) reading.problems.push_back(done.error().message);
  }
  const Settings& s = reading.settings;
  if (s.wire == WireKind::shm && (!s.pcap.empty() || s.faults)) {
    const std::string who = s.pcap.empty() ? "VERBENA_FAULTS (--faults)" : "VERBENA_PCAP (--pcap)";
    reading.problems.push_back(who +
                               ": capture and faults take the network, which VERBENA_WIRE=shm "
                               "(--wire shm) rules out; use --wire auto or udp with it");
  }
  return reading;
}

}  // namespace verbena::settings
