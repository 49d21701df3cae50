#pragma once

// Which of the options of `verbena lab all` each lab takes.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::tool {

/// Names ("--size") and whether a value follows.
using TakenOptions = std::map<std::string, bool, std::less<>>;

/// What a lab prints for --options: a name a line, with a word behind it if it wants a value.
[[nodiscard]] TakenOptions parse_taken_options(std::string_view text);

/// An option as it was given, with its value.
struct GivenOption {
  std::string name;
  std::vector<std::string> words;
};

struct GivenOptions {
  std::vector<GivenOption> options;
  std::string problem;  // empty: all is well
};

/// `any`: what some lab takes. A word that is no option, or none's option, is a problem.
[[nodiscard]] GivenOptions split_options(const std::vector<std::string>& words,
                                         const TakenOptions& any);

/// For the shell: 'a b' in quotes, plain words as they are.
[[nodiscard]] std::string shell_quoted(const std::vector<std::string>& words);

}  // namespace verbena::tool
