#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/verbena/description.h"
#include "tools/verbena/lab_options.h"

namespace verbena::tool {
namespace {

/// The labs are looked up when the shell completes a word.
constexpr auto kLabs = "$(verbena lab list 2>/dev/null | sed -n 's/^\\([a-z-]*\\)  .*/\\1/p')";

/// The options of a lab, which the lab itself prints.
std::string options_of_lab(std::string_view name) {
  return fmt::format("$(verbena lab {} --options 2>/dev/null | cut -d' ' -f1)", name);
}

/// The first clause of a text: a completion has half a line for it.
std::string brief(const std::string& text) {
  return text.substr(0,
                     std::min({text.find(':'), text.find(" ("), text.find('\n'), text.find(';')}));
}

std::string names(const std::vector<OptionDescription>& options) {
  std::string text;
  for (const auto& option : options) text += (text.empty() ? "" : " ") + option.name;
  return text;
}

std::string names(const std::vector<CommandDescription>& commands) {
  std::string text;
  for (const auto& command : commands) text += (text.empty() ? "" : " ") + command.name;
  return text;
}

/// The words that follow a command's options.
std::string words_of(const std::string& command) {
  if (command == "lab") return fmt::format("list all {}", kLabs);
  if (command == "netns") return "left right";
  if (command == "bench") return "server";
  if (command == "completion") return "bash zsh fish";
  return "";
}

std::string bash(const ProgramDescription& program) {
  std::string values, words;
  for (const auto& command : program.commands) {
    for (const auto& option : command.options) {
      if (!option.choices.empty()) {
        values += fmt::format("    {}:{}) words=\"{}\" ;;\n", command.name, option.name,
                              fmt::join(option.choices, " "));
      } else if (option.value == "FILE") {
        values +=
            fmt::format("    {}:{}) mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n",
                        command.name, option.name);
      } else if (!option.value.empty()) {
        values += fmt::format("    {}:{}) return ;;\n", command.name, option.name);
      }
    }
    words += fmt::format("      {}) words=\"{}\" ;;\n", command.name,
                         names(command.options) + " " + words_of(command.name));
  }
  return fmt::format(R"(# bash completion of verbena, made by `verbena completion bash`
_verbena() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words="" i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "{} {}" -- "$word")
    return
  fi
  for ((i = 2; i < COMP_CWORD; ++i)); do # behind -- come the words of another program
    [[ ${{COMP_WORDS[i]}} == -- ]] || continue
    mapfile -t COMPREPLY < <(compgen $( ((i + 1 == COMP_CWORD)) && echo -c) -f -- "$word")
    return
  done
  case ${{COMP_WORDS[1]}}:$before in
{}    *) case ${{COMP_WORDS[1]}} in
{}    esac ;;
  esac
  if [[ ${{COMP_WORDS[1]}} == lab ]] && ((COMP_CWORD > 2)); then
    words="server client {}"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -F _verbena verbena
)",
                     names(program.commands), names(program.program.options), values, words,
                     options_of_lab("${COMP_WORDS[2]}"));
}

/// Inside '…[…]' of _arguments.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : brief(text)) {
    if (c == '[' || c == ']' || c == ':') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh(const ProgramDescription& program) {
  std::string commands, cases;
  for (const auto& command : program.commands) {
    commands += fmt::format(
        "    {}\n", shell_quoted({fmt::format("{}:{}", command.name, brief(command.text))}));
    cases += fmt::format("    {}) _arguments", command.name);
    for (const auto& option : command.options) {
      std::string spec = fmt::format("{}[{}]", option.name, zsh_text(option.text));
      if (!option.choices.empty()) {
        spec += fmt::format(":{}:({})", option.value, fmt::join(option.choices, " "));
      } else if (!option.value.empty()) {
        spec += fmt::format(":{}:{}", option.value, option.value == "FILE" ? "_files" : "");
      }
      cases += " \\\n      " + shell_quoted({spec});
    }
    if (command.name == "run" || command.name == "netns") {
      cases += " \\\n      '*::program:_normal'";
    } else if (command.name == "lab") {
      cases += fmt::format(" \\\n      \"1:lab:({})\" \"*:option:(server client {})\"",
                           words_of(command.name), options_of_lab("$words[2]"));
    } else if (const std::string words = words_of(command.name); !words.empty()) {
      cases += fmt::format(" \\\n      \"*:word:({})\"", words);
    }
    cases += " ;;\n";
  }
  return fmt::format(R"(#compdef verbena
# zsh completion of verbena, made by `verbena completion zsh`
_verbena() {{
  local -a commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
{}  esac
}}
_verbena "$@"
)",
                     commands, cases);
}

std::string fish(const ProgramDescription& program) {
  std::string text =
      "# fish completion of verbena, made by `verbena completion fish`\ncomplete -c verbena -f\n";
  for (const auto& command : program.commands) {
    text += fmt::format("complete -c verbena -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        shell_quoted({brief(command.text)}));
    const std::string seen = fmt::format("-n '__fish_seen_subcommand_from {}'", command.name);
    for (const auto& option : command.options) {
      text += fmt::format("complete -c verbena {} -l {}", seen, option.name.substr(2));
      if (!option.choices.empty()) {
        text += fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
      } else if (!option.value.empty()) {
        text += option.value == "FILE" ? " -r -F" : " -x";
      }
      text += fmt::format(" -d {}\n", shell_quoted({brief(option.text)}));
    }
    if (command.name == "run" || command.name == "netns") {
      text += fmt::format(
          "complete -c verbena {} -x -a '(__fish_complete_subcommand --fcs-skip=2)'\n", seen);
    } else if (command.name == "lab") {
      text += fmt::format("complete -c verbena {} -a \"list all ({})\"\n", seen,
                          "verbena lab list 2>/dev/null | string match -r '^[a-z-]+(?=  )'");
    } else if (const std::string words = words_of(command.name); !words.empty()) {
      text += fmt::format("complete -c verbena {} -a '{}'\n", seen, words);
    }
  }
  return text;
}

}  // namespace

std::string completion(const ProgramDescription& program, const std::string& shell) {
  if (shell == "bash") return bash(program);
  if (shell == "zsh") return zsh(program);
  if (shell == "fish") return fish(program);
  return "";
}

}  // namespace verbena::tool
