#include "tools/doctor/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace verbena::doctor {

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<std::int64_t> number_in(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc{} || rest != end) return std::nullopt;
  return value;
}

std::optional<std::int64_t> read_number(const std::string& path) {
  const auto text = read_text(path);
  return text ? number_in(*text) : std::nullopt;
}

std::optional<std::string> field_of(std::string_view text, std::string_view name) {
  std::istringstream lines{std::string{text}};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const auto begin = line.find_first_not_of(" \t", name.size() + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return std::nullopt;
}

std::set<std::string> modules_in(std::string_view text) {
  std::istringstream lines{std::string{text}};
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (const auto end = line.find(' '); end != 0) names.insert(line.substr(0, end));
  }
  names.erase("");
  return names;
}

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator{folder, none}) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

std::string first_line_of(std::string_view text) {
  return std::string{text.substr(0, text.find('\n'))};
}

std::vector<std::string> commands_in(std::string_view sentence) {
  std::vector<std::string> found;
  for (;;) {
    const auto begin = sentence.find('`');
    if (begin == std::string_view::npos) return found;
    sentence.remove_prefix(begin + 1);
    const auto end = sentence.find('`');
    if (end == std::string_view::npos) return found;
    found.emplace_back(sentence.substr(0, end));
    sentence.remove_prefix(end + 1);
  }
}

std::string listed(const std::vector<std::string>& words) {
  if (words.empty()) return "";
  if (words.size() == 1) return words.front();
  return fmt::format("{} and {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
  if (bytes >= kMiB && bytes % kMiB == 0) return fmt::format("{} MiB", bytes / kMiB);
  if (bytes >= kKiB && bytes % kKiB == 0) return fmt::format("{} KiB", bytes / kKiB);
  return fmt::format("{} bytes", bytes);
}

}  // namespace verbena::doctor
