#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "system/fd.h"

namespace verbena {

/// A file of lines to which several processes append. Each holds a shared lock on it while it
/// writes, so nobody empties it. (An OutputFile has one writer, with an exclusive lock.)
class SharedLogFile {
 public:
  /// The message names the path and the reason.
  static Result<SharedLogFile> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }

  /// Whole lines, in one write(): those of other processes come before or after them. After the
  /// first failure nothing is written any more, and no piece of a line is left in the file.
  Status append(std::string_view lines);

 private:
  SharedLogFile(Fd fd, std::string path) : fd_{std::move(fd)}, path_{std::move(path)} {}
  Error fail(int code);

  Fd fd_;
  std::string path_;
};

}  // namespace verbena
