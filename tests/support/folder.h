#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace verbena::test {

/// A temporary folder.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "wire-test.XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string file(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace verbena::test
