#pragma once

// What the kernel says of itself in small files of /proc and /sys.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::doctor {

/// The whole file; nullopt: it can't be read.
[[nodiscard]] std::optional<std::string> read_text(const std::string& path);

/// A number on a line of its own. nullopt: something else.
[[nodiscard]] std::optional<std::int64_t> number_in(std::string_view text);
[[nodiscard]] std::optional<std::int64_t> read_number(const std::string& path);

/// The value in "NAME:\tVALUE", as /proc/PID/status has it. nullopt: there is no such line.
[[nodiscard]] std::optional<std::string> field_of(std::string_view text, std::string_view name);

/// The names in /proc/modules.
[[nodiscard]] std::set<std::string> modules_in(std::string_view text);

/// The names in a folder, sorted; empty if there is none.
[[nodiscard]] std::vector<std::string> entries_of(const std::string& folder);

/// Without what follows.
[[nodiscard]] std::string first_line_of(std::string_view text);

/// What stands between `backticks`.
[[nodiscard]] std::vector<std::string> commands_in(std::string_view sentence);

/// "a, b and c"; "" for none.
[[nodiscard]] std::string listed(const std::vector<std::string>& words);

/// "8 MiB", "64 KiB", "1000 bytes".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

}  // namespace verbena::doctor
