#include "tools/transfer/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace verbena::transfer {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kRedraw{200};
constexpr std::chrono::seconds kLineEvery{5};

unsigned terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::uint64_t settled(const Tally& tally) {
  const std::uint64_t all = tally.bytes_sent + tally.bytes_kept + tally.bytes_holes;
  const std::uint64_t again = tally.bytes_resent;
  return std::min<std::uint64_t>(all > again ? all - again : 0, tally.bytes_total);
}

double rate_of(const Tally& tally, double seconds) {
  return static_cast<double>(tally.bytes_sent) / std::max(seconds, 1e-3);
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes)
                   : fmt::format("{:.{}f} {}", value, value < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string time_text(double seconds) {
  if (!(seconds < 360000)) return "--:--";
  const auto whole = static_cast<unsigned>(seconds + 0.5);
  return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string bar_text(const Tally& tally, double seconds, unsigned width) {
  const std::uint64_t total = tally.bytes_total, done = settled(tally);
  const double part = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  const double rate = rate_of(tally, seconds);
  const double left = rate > 0 ? static_cast<double>(total - done) / rate : 1e9;
  const std::string numbers =
      fmt::format(" {:3.0f} % {} of {}, {}/s, {} left, {} resent", 100 * part, size_text(done),
                  size_text(total), size_text(static_cast<std::uint64_t>(rate)), time_text(left),
                  size_text(tally.bytes_resent));
  const std::size_t room = width > numbers.size() + 3 ? width - numbers.size() - 3 : 0;
  if (room < 4) return numbers.substr(1, width > 1 ? width - 1 : 0);
  const auto full = static_cast<std::size_t>(part * static_cast<double>(room));
  return fmt::format("[{}{}]{}", std::string(full, '#'), std::string(room - full, '.'), numbers);
}

std::string json_text(const Tally& tally, const std::string& event, double seconds) {
  const json line{{"event", event},
                  {"seconds", seconds},
                  {"entries", tally.entries_total.load()},
                  {"bytes", tally.bytes_total.load()},
                  {"placed", tally.placed.load()},
                  {"identical", tally.identical.load()},
                  {"skipped", tally.skipped.load()},
                  {"failed", tally.failed.load()},
                  {"bytes_sent", tally.bytes_sent.load()},
                  {"bytes_resent", tally.bytes_resent.load()},
                  {"bytes_kept", tally.bytes_kept.load()},
                  {"bytes_holes", tally.bytes_holes.load()},
                  {"encrypted", false}};
  return line.dump();
}

Progress::Progress(const Tally& tally, std::string verb, bool json)
    : tally_{tally}, verb_{std::move(verb)}, json_{json}, terminal_{isatty(STDERR_FILENO) == 1} {}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Progress::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void Progress::show() {
  const auto now = Clock::now();
  const bool bar = terminal_ && !json_;
  if (tally_.entries_total == 0 || now - shown_at_ < (bar ? kRedraw : kLineEvery)) return;
  shown_at_ = now;
  if (json_) {
    std::puts(json_text(tally_, "progress", seconds()).c_str());
    std::fflush(stdout);
  } else if (bar) {
    std::fputs(fmt::format("\r{}\033[K", bar_text(tally_, seconds(), terminal_width() - 1)).c_str(),
               stderr);
    drawn_ = true;
  } else {
    say(fmt::format("{} of {}, {}/s", size_text(settled(tally_)), size_text(tally_.bytes_total),
                    size_text(static_cast<std::uint64_t>(rate_of(tally_, seconds())))));
  }
}

void Progress::print(const std::string& event, const std::string& key, const std::string& text,
                     bool error) {
  clear();
  if (json_) {
    const json line{{"event", event}, {key, text}};
    std::puts(line.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
    std::fflush(stdout);
    return;
  }
  std::fputs((text + "\n").c_str(), error ? stderr : stdout);
  std::fflush(stdout);
}

void Progress::say(const std::string& line) { print("note", "text", line, false); }

void Progress::complain(const std::string& line) { print("problem", "text", line, true); }

void Progress::finish(const std::string& problem) {
  clear();
  if (json_) {
    json line = json::parse(json_text(tally_, "end", seconds()));
    line["problem"] = problem;
    std::puts(line.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
    std::fflush(stdout);
    return;
  }
  std::string text =
      fmt::format("{} {} of {} entries, {} in {:.1f} s ({}/s)", verb_, tally_.placed.load(),
                  tally_.entries_total.load(), size_text(tally_.bytes_sent), seconds(),
                  size_text(static_cast<std::uint64_t>(rate_of(tally_, seconds()))));
  if (tally_.bytes_kept > 0) {
    text += fmt::format("; {} were there already", size_text(tally_.bytes_kept));
  }
  if (tally_.bytes_holes > 0) {
    text += fmt::format("; {} are holes", size_text(tally_.bytes_holes));
  }
  if (tally_.identical > 0) text += fmt::format("; {} identical", tally_.identical.load());
  if (tally_.skipped > 0) text += fmt::format("; {} skipped", tally_.skipped.load());
  if (tally_.failed > 0) text += fmt::format("; {} failed", tally_.failed.load());
  if (tally_.bytes_resent > 0) text += fmt::format("; {} resent", size_text(tally_.bytes_resent));
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
  if (!problem.empty()) std::fputs((problem + "\n").c_str(), stderr);
}

}  // namespace verbena::transfer
