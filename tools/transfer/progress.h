#pragma once

// What people and programs see of a transfer: a bar on a terminal, plain lines or JSON elsewhere.

#include <chrono>
#include <cstdint>
#include <string>

#include "tools/transfer/tally.h"

namespace verbena::transfer {

/// "1.2 GB"
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// "0:07", "1:02:03"
[[nodiscard]] std::string time_text(double seconds);
/// One line: bar, percent, rate, time left, resends. Never wider than `width`.
[[nodiscard]] std::string bar_text(const Tally& tally, double seconds, unsigned width);
[[nodiscard]] std::string json_text(const Tally& tally, const std::string& event, double seconds);

class Progress {
 public:
  /// `verb`: "sent" or "received".
  Progress(const Tally& tally, std::string verb, bool json);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  /// Redraws, at most a few times a second.
  void show();
  /// A line for people; with --json a JSON line.
  void say(const std::string& line);
  /// About one entry.
  void complain(const std::string& line);
  /// The last line. `problem`: "" or why it ended.
  void finish(const std::string& problem);
  /// Takes the bar from the screen.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] double seconds() const;
  void print(const std::string& event, const std::string& key, const std::string& text, bool error);

  const Tally& tally_;
  std::string verb_;
  bool json_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now(), shown_at_ = Clock::now();
};

}  // namespace verbena::transfer
