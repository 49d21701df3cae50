#pragma once

// The labs that are installed beside this program, in the order of their teaching.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::tool {

struct LabEntry {
  std::string name;
  std::string idea;
};

/// The text of labs/list.txt: a name, white space, the idea; a line each; # starts a comment.
[[nodiscard]] std::vector<LabEntry> parse_lab_list(std::string_view text);

/// The one that was probably meant, if any comes near.
[[nodiscard]] std::optional<std::string> nearest_lab(const std::vector<LabEntry>& labs,
                                                     std::string_view name);

}  // namespace verbena::tool
