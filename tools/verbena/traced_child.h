#pragma once

// A program that writes a trace, run to its end so that the trace can be reported.
//
//   signal     while the program runs                       before and after
//   INT, QUIT  the terminal sends it to the program, too    remove the file, end by the signal
//   TERM, HUP  pass it on to the program                    remove the file, end by the signal
//   PIPE       pass it on to the program                    remove the file, end by the signal

#include <array>
#include <csignal>
#include <string>
#include <vector>

namespace verbena::tool {

/// Where the trace goes: the file that the user named, or one that is removed with this object, and
/// if a signal ends us. One at a time. Throws std::system_error.
class TraceFile {
 public:
  explicit TraceFile(std::string given);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  /// No program opened a device.
  [[nodiscard]] bool is_empty() const;
  /// Removes it no more, and says on stderr where it is, if the user didn't name it.
  /// Not when the terminal has hung up: nobody would read that.
  void keep(const char* command);

 private:
  std::string path_;
  bool temporary_;
  std::array<struct sigaction, 5> earlier_{};  // of the signals above
};

/// Runs `program` with these words (the first is its name) and returns its exit status. A TraceFile
/// must exist: it handles the signals. Throws std::system_error.
[[nodiscard]] int run_child(const std::string& program, const std::vector<std::string>& words);

}  // namespace verbena::tool
