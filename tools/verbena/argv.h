#pragma once

#include <string>
#include <vector>

namespace verbena::tool {

/// As execv(3) and its kin want a command; good as long as `command` is.
[[nodiscard]] inline std::vector<char*> argv_of(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  return words;
}

}  // namespace verbena::tool
