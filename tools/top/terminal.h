#pragma once

// The terminal while a full-screen program has it. However the program ends, but by SIGKILL, the
// terminal is then as it was.

#include <optional>
#include <string>
#include <vector>

#include "tools/top/keys.h"
#include "tools/top/pages.h"

namespace verbena::top {

/// Empty: there is a terminal that can show a screen; else why not.
[[nodiscard]] std::string terminal_problem();

/// One at a time. Signals that end or stop the program, and those of the terminal's size, are
/// blocked and taken by wait() from the constructor on: construct it before starting threads.
class Terminal {
 public:
  /// std::runtime_error: it can't be set up.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] static Size size();
  /// Writes the lines that differ from those on the screen. False: the terminal is gone.
  bool show(const std::vector<Line>& lines);
  /// The next show() writes every line.
  void forget() { shown_.clear(); }

  struct Woken {
    std::vector<Key> keys{};
    bool resized = false;
    bool descriptor = false;
    int ended_by = 0;   // a signal
    bool gone = false;  // the terminal
  };
  /// Until something happens there or at `descriptor`.
  Woken wait(int descriptor);

  /// Gives the terminal back and stops the process, as Ctrl-Z does. Returns once it goes on.
  void suspend();

 private:
  void read_signals(Woken& woken) const;
  void read_keys(Woken& woken);

  int signals_ = -1;
  std::string input_;  // the beginning of a key
  std::vector<Line> shown_;
};

}  // namespace verbena::top
