#pragma once

// The command line in words: what shells complete and man(1) shows. Read from the parser itself,
// so that there is one source.

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace verbena::tool {

struct OptionDescription {
  std::string name;                  // --log
  std::string value;                 // FILE; empty: a flag
  std::vector<std::string> choices;  // empty: any value
  std::string text;
};

struct CommandDescription {
  std::string name;  // empty: the program itself
  std::string text;
  std::string footer;  // examples and more, as --help shows it
  std::vector<OptionDescription> options;
};

struct ProgramDescription {
  CommandDescription program;
  std::vector<CommandDescription> commands;
};

[[nodiscard]] ProgramDescription describe(const CLI::App& app);

/// A script for bash, zsh or fish; empty: another shell.
[[nodiscard]] std::string completion(const ProgramDescription& program, const std::string& shell);

/// In the language of man(7). `command`: a name of a command, or empty for the program. Empty: no
/// such command.
[[nodiscard]] std::string manual_page(const ProgramDescription& program,
                                      const std::string& command);

}  // namespace verbena::tool
