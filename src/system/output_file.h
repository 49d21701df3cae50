#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "system/fd.h"

namespace verbena {

/// `path` with the process id before the extension: out.pcapng, 7 -> out.7.pcapng.
[[nodiscard]] std::string with_process_id(std::string_view path, std::uint32_t pid);

/// A file that one process alone writes. Several may be started with the same name: the first
/// has it, the others get their process id into it. What a write error leaves is whole records.
class OutputFile {
 public:
  /// The message names the path and the reason.
  static Result<OutputFile> open(const std::string& path);

  /// The name that it really has.
  [[nodiscard]] const std::string& path() const { return path_; }

  /// One record or several. After the first failure nothing is written any more.
  Status append(std::string_view records);

 private:
  OutputFile(Fd fd, std::string path) : fd_{std::move(fd)}, path_{std::move(path)} {}

  Fd fd_;
  std::string path_;
  std::uint64_t size_ = 0;
};

}  // namespace verbena
