#include "tools/report/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "tools/report/observation.h"
#include "tools/report/text_width.h"

namespace verbena::report {
namespace {

using Word = std::pair<std::string_view, std::string_view>;

constexpr std::array kDrops{
    Word{"drop_malformed", "malformed"},
    Word{"drop_no_qp", "no such queue pair"},
    Word{"drop_state", "not in this state"},
    Word{"drop_source", "not from its peer"},
    Word{"drop_way", "not by shared memory, as its peer's are"},
    Word{"drop_pkey", "wrong P_Key"},
    Word{"drop_service", "wrong service"},
    Word{"drop_qkey", "wrong Q_Key"},
    Word{"drop_no_receive", "no receive posted"},
    Word{"drop_too_long", "longer than the receive"},
    Word{"drop_response", "no request waits for it"},
    Word{"drop_no_memory", "out of memory"},
    Word{"icrc_errors", "damaged"},
    Word{"handover_drops", "not forwarded to its process"},
};

constexpr std::array kRetries{
    Word{"timeout", "timeout"},
    Word{"early", "answer overdue"},
    Word{"sequence_nak", "sequence NAK"},
    Word{"missing_response", "a response is missing"},
    Word{"rnr_nak", "receiver not ready"},
};

template <std::size_t N>
std::string_view word_for(const std::array<Word, N>& words, std::string_view name) {
  const auto found = std::ranges::find(words, name, &Word::first);
  return found == words.end() ? std::string_view{} : found->second;
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKibi = 1024, kMostBytes = 9999;
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  std::uint64_t scale = 1;
  while (unit + 1 < kUnits.size() && bytes >= scale * kKibi) {
    scale *= kKibi;
    ++unit;
  }
  if (bytes % scale == 0) return fmt::format("{} {}", bytes / scale, kUnits[unit]);
  if (bytes <= kMostBytes) return fmt::format("{} B", bytes);
  return fmt::format("{:.1f} {}", static_cast<double>(bytes) / static_cast<double>(scale),
                     kUnits[unit]);
}

std::string duration_text(Time time) {
  constexpr double kMicro = 1e3, kMilli = 1e6, kSecond = 1e9;
  const auto value = static_cast<double>(time);
  const auto text = [&](double unit, std::string_view name) {
    const double number = value / unit;
    return fmt::format("{:.{}f} {}", number, number < 100 ? 1 : 0, name);
  };
  if (value < kMilli) return text(kMicro, "µs");
  return value < kSecond ? text(kMilli, "ms") : text(kSecond, "s");
}

std::string count_text(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string id_text(const std::string& wr_id) {
  constexpr std::uint64_t kMostDecimal = 0xffff'ffff;
  const char* const end = wr_id.data() + wr_id.size();
  std::uint64_t id = 0;
  const auto [rest, problem] = std::from_chars(wr_id.data(), end, id);
  const bool is_number = problem == std::errc{} && rest == end;
  return is_number && id > kMostDecimal ? fmt::format("{:#x}", id) : wr_id;
}

std::string drop_word(std::string_view counter) {
  const std::string_view word = word_for(kDrops, counter);
  return std::string{word.empty() ? counter : word};
}

std::string drop_text(std::string_view counter) {
  const std::string_view word = word_for(kDrops, counter);
  return word.empty() ? std::string{counter} : fmt::format("{} ({})", word, counter);
}

std::string retry_text(std::string_view cause) {
  const std::string_view word = word_for(kRetries, cause);
  return std::string{word.empty() ? cause : word};
}

std::string program_text(const End& end) {
  if (end.is_nobody()) return "";
  return end.program.empty() ? "not traced" : printable(end.program);
}

std::string number_text(const End& end) {
  constexpr std::uint32_t kMulticastQpn = 0xff'ffff;
  if (end.shared) return fmt::format("SRQ {:#x}", end.qpn);
  if (end.is_nobody()) return "";
  if (end.qpn == 0) return "QP unknown";
  if (end.qpn == kMulticastQpn) return "multicast group";
  return "QP " + qpn_text(end.qpn);
}

}  // namespace verbena::report
