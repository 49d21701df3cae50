#pragma once

// The main loop of a lab, with its progress shown when it takes long:
//
//   for (const std::uint64_t round : lab::rounds(options.iters)) { … }

#include <chrono>
#include <cstdint>

namespace lab {

/// Counts from 0. After a second it says on stderr how far it is: on a terminal in one line that
/// is written again and again, elsewhere a line every ten seconds.
class Rounds {
 public:
  /// `speaks`: of several ends or ranks with the same loop, one tells of it.
  explicit Rounds(std::uint64_t count, bool speaks = true) : count_{count} {
    if (!speaks) next_ = Clock::time_point::max();
  }
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;
  ~Rounds();

  struct End {};
  class Iterator {
   public:
    explicit Iterator(Rounds& rounds) : rounds_{rounds} {}
    [[nodiscard]] std::uint64_t operator*() const { return at_; }
    Iterator& operator++() {
      rounds_.done(++at_);
      return *this;
    }
    [[nodiscard]] bool operator!=(End) const { return at_ < rounds_.count_; }

   private:
    Rounds& rounds_;
    std::uint64_t at_ = 0;
  };
  [[nodiscard]] Iterator begin() { return Iterator{*this}; }
  [[nodiscard]] End end() const { return {}; }

  /// For loops of another shape: so many rounds are done.
  void done(std::uint64_t rounds) {
    if (const auto now = Clock::now(); now >= next_ && rounds > 0) report(rounds, now);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void report(std::uint64_t rounds, Clock::time_point now);

  std::uint64_t count_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_ + std::chrono::seconds{1};
  bool line_open_ = false;  // on a terminal
};

[[nodiscard]] inline Rounds rounds(std::uint64_t count) { return Rounds{count}; }

}  // namespace lab
