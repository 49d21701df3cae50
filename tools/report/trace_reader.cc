#include "tools/report/trace_reader.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "packet/bth.h"
#include "packet/opcode.h"

namespace verbena::report {
namespace {

using nlohmann::json;

struct KindName {
  std::string_view name;
  Seen kind;
};
constexpr std::array kKinds{
    KindName{"state", Seen::state},
    KindName{"post_send", Seen::post_send},
    KindName{"post_recv", Seen::post_receive},
    KindName{"sent", Seen::sent},
    KindName{"received", Seen::received},
    KindName{"dropped", Seen::dropped},
    KindName{"fault", Seen::fault},
    KindName{"retry", Seen::retry},
    KindName{"completion", Seen::completion},
};

std::optional<Seen> kind_of(std::string_view name) {
  for (const KindName& k : kKinds) {
    if (k.name == name) return k.kind;
  }
  return std::nullopt;
}

std::string string_in(const json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

std::uint64_t number_in(const json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

bool flag_in(const json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_boolean() && found->get<bool>();
}

/// "0x0001a2"; 0 for what isn't there.
std::uint32_t qpn_in(const json& line, const char* key) {
  const std::string text = string_in(line, key);
  std::uint32_t value = 0;
  if (text.starts_with("0x")) {
    std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  }
  return value;
}

/// nullopt: no hexadecimal digits, or half a byte.
std::optional<std::vector<std::uint8_t>> bytes_in(const json& line, const char* key) {
  const std::string text = string_in(line, key);
  std::vector<std::uint8_t> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* const at = text.data() + 2 * i;
    if (std::from_chars(at, at + 2, bytes[i], 16).ptr != at + 2) return std::nullopt;
  }
  return text.size() % 2 == 0 ? std::optional{std::move(bytes)} : std::nullopt;
}

/// 0 for none; nullopt: it is no PSN.
std::optional<std::uint32_t> psn_in(const json& line) {
  const auto found = line.find("psn");
  if (found == line.end()) return 0;
  constexpr std::uint64_t kLast = 0xff'ffff;
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() > kLast) return std::nullopt;
  return found->get<std::uint32_t>();
}

/// A frame that could not be parsed names no opcode.
bool belong_together(const std::vector<std::uint8_t>& headers, const std::string& opcode) {
  if (opcode.empty()) return true;
  return !headers.empty() &&
         packet::info_of(static_cast<packet::Opcode>(headers.front())).name == opcode;
}

/// False: the line is damaged.
bool read_packet(const json& line, Observation& o) {
  const auto psn = psn_in(line);
  auto headers = bytes_in(line, "headers");
  if (!psn || !headers || !belong_together(*headers, string_in(line, "opcode"))) return false;
  o.destination_qpn = qpn_in(line, "destination_qp");
  o.psn = *psn;
  o.bytes = static_cast<std::uint32_t>(number_in(line, "bytes"));
  o.again = flag_in(line, "again");
  o.again_known = line.contains("again");
  o.ack_request = flag_in(line, "ack_request");
  o.headers = std::move(*headers);
  if (!o.headers.empty()) o.opcode = o.headers.front();
  return true;
}

bool has_time(const json& line) {
  const auto found = line.find("t");
  return found != line.end() && found->is_number_unsigned();
}

void read_state(const json& line, Observation& o, Observations& to) {
  o.from = to.keep(string_in(line, "from"));
  o.to = to.keep(string_in(line, "to"));
  o.type = to.keep(string_in(line, "type"));
  o.device = to.keep(string_in(line, "device"));
  o.destination_qpn = qpn_in(line, "peer_qp");
  o.mtu = static_cast<std::uint32_t>(number_in(line, "mtu"));
}

void read_request(const json& line, Observation& o, Observations& to) {
  o.wr_id = to.keep(string_in(line, "wr_id"));
  o.op = to.keep(string_in(line, "op"));
  o.status = to.keep(string_in(line, "status"));
  o.request_bytes = number_in(line, "bytes");
  o.signaled = flag_in(line, "signaled") || !line.contains("signaled");
}

/// nullopt: the line is damaged.
std::optional<Observation> read_line(const json& line, Seen kind, Observations& to) {
  Observation o;
  bool whole = true;
  o.kind = kind;
  o.time = time_of(number_in(line, "t"));
  o.qpn = qpn_in(line, "qp");
  o.local = to.keep(string_in(line, "local"));
  o.peer = to.keep(string_in(line, "peer"));
  switch (kind) {
    case Seen::state:
      read_state(line, o, to);
      break;
    case Seen::post_receive:
      if (line.contains("srq")) o.srq = static_cast<std::uint32_t>(number_in(line, "srq"));
      read_request(line, o, to);
      break;
    case Seen::post_send:
    case Seen::completion:
      read_request(line, o, to);
      break;
    case Seen::retry: {
      const auto psn = psn_in(line);
      whole = psn.has_value();
      o.psn = psn.value_or(0);
      o.word = to.keep(string_in(line, "cause"));
      break;
    }
    case Seen::dropped:
      o.word = to.keep(string_in(line, "reason"));
      whole = read_packet(line, o);
      break;
    case Seen::fault:
      o.word = to.keep(string_in(line, "kind"));
      whole = read_packet(line, o);
      break;
    case Seen::sent:
    case Seen::received:
    case Seen::passing:
      whole = read_packet(line, o);
      break;
  }
  return whole ? std::optional{std::move(o)} : std::nullopt;
}

Observer read_start(const json& line, std::uint32_t source) {
  Observer o;
  o.source = source;
  o.traced = true;
  o.pid = static_cast<std::uint32_t>(number_in(line, "pid"));
  o.program = string_in(line, "program");
  o.host = string_in(line, "host");
  o.clock = string_in(line, "boot");
  o.wall = difference_of(time_of(number_in(line, "wall")), time_of(number_in(line, "t")));
  return o;
}

/// Lines of one file, with the observer that each belongs to.
class TraceFile {
 public:
  TraceFile(std::string path, Observations& to) : path_{std::move(path)}, to_{to} {
    source_ = static_cast<std::uint32_t>(to.files.size());
    to.files.push_back(path_);
  }

  /// False: the line is damaged.
  [[nodiscard]] bool take(const json& line, std::size_t number) {
    const std::string event = string_in(line, "event");
    if (!has_time(line)) return false;
    const auto pid = number_in(line, "pid");
    if (event == "start") {
      if (number_in(line, "version") != 2) {
        throw std::runtime_error{fmt::format(
            "{}:{}: a trace of version {}, and this program reads version 2: record it again",
            path_, number, number_in(line, "version"))};
      }
      observers_[pid] = static_cast<std::uint32_t>(to_.observers.size());
      to_.observers.push_back(read_start(line, source_));
      return true;
    }
    const auto kind = kind_of(event);
    if (!kind) return true;  // newer than we are
    const auto observer = observers_.find(pid);
    if (observer == observers_.end()) {
      throw std::runtime_error{fmt::format(
          "{}:{}: an event of process {} before its start: the beginning of the file is missing",
          path_, number, pid)};
    }
    auto o = read_line(line, *kind, to_);
    if (!o) return false;
    o->observer = observer->second;
    to_.all.push_back(std::move(*o));
    return true;
  }

 private:
  std::string path_;
  Observations& to_;
  std::uint32_t source_ = 0;
  std::map<std::uint64_t, std::uint32_t> observers_;  // by process id
};

/// The object in a line. A process that was killed may have left the first part of its last line in
/// front of another's.
json object_in(const std::string& text) {
  constexpr std::string_view kBegin = R"({"t":)";
  json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (line.is_object()) return line;
  const std::size_t at = text.rfind(kBegin);
  if (at == std::string::npos || at == 0) return {};
  line = json::parse(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), nullptr,
                     /*allow_exceptions=*/false);
  return line.is_object() ? line : json{};
}

}  // namespace

std::string qpn_text(std::uint32_t qpn) { return fmt::format("{:#08x}", qpn); }

bool looks_like_trace(const std::string& beginning) {
  return beginning.starts_with("{") && beginning.find("\"event\"") != std::string::npos;
}

void read_trace(const std::string& path, Observations& to) {
  std::ifstream file{path};
  if (!file) throw std::runtime_error{fmt::format("{}: {}", path, std::strerror(errno))};
  TraceFile trace{path, to};
  std::size_t number = 0, broken = 0, first_broken = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    // On a full disk, a process overwrites with blanks what was cut off.
    if (text.find_first_not_of(' ') == std::string::npos) continue;
    const json line = object_in(text);
    if (line.is_object() && trace.take(line, number)) continue;
    if (!line.is_object() && file.eof()) {  // a process was killed, or the disk was full
      to.remarks.push_back(fmt::format("{}: the last line was cut off, and is left out", path));
    } else if (broken++ == 0) {
      first_broken = number;
    }
  }
  if (broken > 0) {
    to.remarks.push_back(fmt::format("{}:{}: {}", path, first_broken,
                                     broken == 1
                                         ? "this line is no event, and is left out"
                                         : fmt::format("this line and {} more are no events, and "
                                                       "are left out",
                                                       broken - 1)));
  }
}

}  // namespace verbena::report
