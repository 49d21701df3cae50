#include "tools/verbena/lab_options.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::tool {

TakenOptions parse_taken_options(std::string_view text) {
  TakenOptions taken;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto space = line.find(' ');
    if (line.starts_with("--")) {
      taken.emplace(line.substr(0, space), space != std::string_view::npos);
    }
  }
  return taken;
}

GivenOptions split_options(const std::vector<std::string>& words, const TakenOptions& any) {
  GivenOptions given;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string name = word.substr(0, word.find('='));
    const auto known = any.find(name);
    if (known == any.end()) {
      given.problem =
          word.starts_with("-")
              ? fmt::format("no lab has the option {}", name)
              : fmt::format(
                    "\"{}\": \"verbena lab all\" takes only options, because it runs both "
                    "ends here",
                    word);
      return given;
    }
    given.options.push_back({name, {word}});
    if (!known->second || word.size() > name.size()) continue;
    if (++i == words.size()) {
      given.problem = fmt::format("{}: its value is missing", name);
      return given;
    }
    given.options.back().words.push_back(words[i]);
  }
  return given;
}

std::string shell_quoted(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,.:/%~@";
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char letter : word)
      text += letter == '\'' ? std::string{"'\\''"} : std::string{letter};
    text += '\'';
  }
  return text;
}

}  // namespace verbena::tool
