#include "tools/verbena/description.h"

#include <CLI/CLI.hpp>
#include <sstream>

namespace verbena::tool {
namespace {

/// CLI11 has "TEXT:{a,b}" where one of several words is wanted.
std::vector<std::string> choices_of(const std::string& type) {
  const auto begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  std::istringstream words{type.substr(begin + 1, end - begin - 1)};
  std::vector<std::string> choices;
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

OptionDescription describe(const CLI::Option& option) {
  OptionDescription result{option.get_name(), "", {}, option.get_description()};
  if (!option.get_lnames().empty()) result.name = "--" + option.get_lnames().front();
  if (option.get_items_expected_min() > 0) {
    const std::string type = option.get_type_name();
    result.choices = choices_of(type);
    result.value = result.choices.empty() ? type.substr(0, type.find_first_of(" :")) : "WORD";
  }
  return result;
}

CommandDescription describe_command(const CLI::App& app, const std::string& name) {
  CommandDescription result{name, app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;  // a word without a name
    if (option->get_group().empty()) continue;   // hidden
    result.options.push_back(describe(*option));
  }
  return result;
}

}  // namespace

ProgramDescription describe(const CLI::App& app) {
  ProgramDescription result{describe_command(app, ""), {}};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;  // hidden
    result.commands.push_back(describe_command(*command, command->get_name()));
  }
  return result;
}

}  // namespace verbena::tool
