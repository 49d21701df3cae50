#pragma once

#include <filesystem>

namespace lab {

/// A folder of its own that goes when the lab does, by a signal too: Ctrl-C, SIGTERM, and the alarm
/// of --timeout. One at a time in a process.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// For handlers of signals that end the process: removes the folder, if there is one.
void remove_temporary_folder() noexcept;

}  // namespace lab
