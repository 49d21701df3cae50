#pragma once

// A program that writes a trace, run to its end so that the trace can be reported.

#include <string>
#include <vector>

namespace verbena::tool {

/// Where the trace goes: the file that the user named, or one that is removed with this object.
/// Throws std::system_error.
class TraceFile {
 public:
  explicit TraceFile(std::string given);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_;
};

/// Runs `program` with these words (the first is its name) and returns its exit status. The
/// terminal's signals end the program, not us. Throws std::system_error.
[[nodiscard]] int run_child(const std::string& program, std::vector<std::string> words);

}  // namespace verbena::tool
