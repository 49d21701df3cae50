#include "host/observation/processes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <vector>

#include "host/observation/first_line.h"
#include "host/observation/json.h"
#include "registry/roll_call.h"

namespace verbena::host {
namespace {

/// proc(5): the state follows the name, which is in parentheses and may have some itself.
bool is_stopped(const std::string& stat) {
  const auto end = stat.rfind(')');
  if (end == std::string::npos || end + 2 >= stat.size()) return false;
  return stat[end + 2] == 'T' || stat[end + 2] == 't';
}

std::string object_of(const registry::Presence& p) {
  if (p.account) {
    return fmt::format(R"({{"pid":{},"answers":true,"statistics":{},"parts":[{}]}})", p.pid,
                       *p.account, fmt::join(p.parts, ","));
  }
  const std::string folder = fmt::format("/proc/{}/", p.pid);
  return fmt::format(R"({{"pid":{},"answers":false,"program":{},"stopped":{}}})", p.pid,
                     json_quoted(first_line(folder + "comm")),
                     is_stopped(first_line(folder + "stat")));
}

std::string list_of(const std::vector<registry::Presence>& present) {
  std::string text;
  for (const registry::Presence& p : present) text += (text.empty() ? "" : ",") + object_of(p);
  return "[" + text + "]";
}

}  // namespace

std::string processes_as_json() { return list_of(registry::call_roll()); }

std::string activity_as_json() {
  return list_of(
      registry::call_roll(std::chrono::milliseconds{300}, registry::Detail::queue_pairs));
}

}  // namespace verbena::host
