#include "tools/transfer/names.h"

#include <fmt/format.h>

#include <climits>
#include <cstdint>

#include "tools/transfer/messages.h"

namespace verbena::transfer {
namespace {

/// The length of the well-formed, printable UTF-8 character at the front; 0: there is none.
std::size_t printable_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f && first != '\\' ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  std::uint32_t code = first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  const bool control = code < 0xa0;
  // Marks that change the direction or the joining of what follows.
  const bool invisible = (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
                         (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
  return overlong || surrogate || control || invisible || code > 0x10ffff ? 0 : length;
}

void check_component(const std::string& name, const std::string& path) {
  const char* problem = nullptr;
  if (name.empty()) problem = "has an empty part or begins or ends with a slash";
  if (name == "." || name == "..")
    problem = "has \".\" or \"..\" in it, which may leave the folder";
  if (name.size() > NAME_MAX) problem = "has a part of more than 255 bytes";
  if (name.find('\0') != std::string::npos) problem = "has a zero byte in it";
  if (problem != nullptr)
    throw Malformed{fmt::format("the name \"{}\" {}", printable(path), problem)};
}

}  // namespace

std::vector<std::string> components_of(const std::string& path) {
  if (path.size() >= PATH_MAX) {
    throw Malformed{
        fmt::format("a name of {} bytes, at most {} are possible", path.size(), PATH_MAX - 1)};
  }
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    check_component(parts.back(), path);
    begin = end + 1;
  }
  if (parts.front() == kHiddenFolder) {
    throw Malformed{
        fmt::format("the name \"{}\" is of the folder for incomplete files", printable(path))};
  }
  return parts;
}

std::string printable(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    if (const std::size_t length = printable_character(name); length > 0) {
      text += name.substr(0, length);
      name.remove_prefix(length);
      continue;
    }
    switch (name.front()) {
      case '\n':
        text += "\\n";
        break;
      case '\t':
        text += "\\t";
        break;
      case '\\':
        text += "\\\\";
        break;
      default:
        text += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(name.front()));
    }
    name.remove_prefix(1);
  }
  return text;
}

}  // namespace verbena::transfer
