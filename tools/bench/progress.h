#pragma once

// A bar on the terminal while rounds run; a line for each round if stderr is no terminal.

#include <chrono>
#include <cstddef>
#include <string>

namespace verbena::bench {

class Progress {
 public:
  Progress(std::size_t rounds, std::size_t measurements);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Before a measurement; both counted from 0.
  void show(std::size_t round, std::size_t measurement, const std::string& title);
  /// After the last measurement of a round.
  void end_round(std::size_t round);
  /// A line that stays.
  void say(const std::string& line);

 private:
  void clear();

  std::size_t rounds_;
  std::size_t measurements_;
  bool terminal_;
  std::chrono::steady_clock::time_point begin_;
};

/// "[#####.....]" of `width` characters in between.
[[nodiscard]] std::string bar_of(double part, std::size_t width);

}  // namespace verbena::bench
