#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "settings/settings.h"
#include "tools/verbena/description.h"

namespace verbena::tool {
namespace {

/// A line of text: no request, no escape, no typographic hyphen.
std::string roff(std::string_view text) {
  std::string result = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

std::vector<std::string> paragraphs(const std::string& text) {
  std::vector<std::string> result(1);
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      result.emplace_back();
    } else {
      result.back() += line + "\n";
    }
  }
  std::erase(result, "");
  return result;
}

/// Its lines as they stand (a command or a table), or filled.
std::string body(const std::string& paragraph, bool as_it_stands) {
  std::string result = as_it_stands ? ".nf\n" : "";
  std::istringstream lines{paragraph};
  for (std::string line; std::getline(lines, line);) result += roff(line) + "\n";
  return result + (as_it_stands ? ".fi\n" : "");
}

/// "Examples:" and "Exit status: …" of a footer have sections of their own.
std::string footer(const std::string& text) {
  constexpr std::string_view kExamples = "Examples:\n",
                             kUsage = "usage: ", kStatus = "Exit status: ";
  std::string examples, status, notes;
  for (const std::string& paragraph : paragraphs(text)) {
    if (paragraph.starts_with(kExamples)) {
      examples += ".SH EXAMPLES\n" + body(paragraph.substr(kExamples.size()), true);
    } else if (paragraph.starts_with(kUsage)) {
      examples += ".SH USAGE\n" + body("       " + paragraph.substr(kUsage.size()), true);
    } else if (paragraph.starts_with(kStatus)) {
      status += ".SH \"EXIT STATUS\"\n" + body(paragraph.substr(kStatus.size()), false);
    } else {
      notes += ".PP\n" + body(paragraph, false);
    }
  }
  return (notes.empty() ? "" : ".SH NOTES\n" + notes) + status + examples;
}

std::string options(const std::vector<OptionDescription>& list) {
  std::string text = ".SH OPTIONS\n";
  for (const auto& option : list) {
    const std::string value =
        option.choices.empty() ? option.value : fmt::format("{}", fmt::join(option.choices, "|"));
    text += fmt::format(".TP\n\\fB{}\\fR{}\\fI{}\\fR\n", roff(option.name),
                        value.empty() || value.starts_with("[") ? "" : " ", roff(value));
    text += body(option.text + "\n", false);
  }
  return text;
}

std::string variables() {
  std::string text = ".SH ENVIRONMENT\nEach variable is also an option of verbena\\-run(1).\n";
  for (const settings::Variable& variable : settings::variables()) {
    text += fmt::format(".TP\n\\fB{}\\fR=\\fI{}\\fR\n{}\n", variable.name, roff(variable.form),
                        roff(variable.meaning));
  }
  return text;
}

std::string head(const std::string& name, const std::string& text) {
  std::string title = name;
  std::ranges::transform(title, title.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return fmt::format(".TH {} 1 \"\" \"verbena {}\" \"Verbena\"\n.nh\n.SH NAME\n{} \\- {}\n",
                     roff(title), VERBENA_VERSION, roff(name),
                     roff(text.substr(0, text.find(": verbena"))));
}

std::string page_of_program(const ProgramDescription& program) {
  std::string text =
      head("verbena", "a RoCEv2 network card in user space: unmodified RDMA programs run on it") +
      ".SH SYNOPSIS\n\\fBverbena\\fR \\fICOMMAND\\fR …\n.SH COMMANDS\n";
  for (const auto& command : program.commands) {
    text += fmt::format(".TP\n\\fBverbena\\-{}\\fR(1)\n{}\n", command.name, roff(command.text));
  }
  text += options(program.program.options) + variables() + footer(program.program.footer);
  return text + ".SH \"SEE ALSO\"\nibv_devices(1), ibv_rc_pingpong(1), rping(1)\n";
}

/// What the description says behind a colon, or that there are options only.
std::string synopsis(const CommandDescription& command) {
  const std::string begin = "verbena " + command.name;
  const auto said = command.text.find(": " + begin);
  std::string rest = said == std::string::npos ? "" : command.text.substr(said + 2 + begin.size());
  if (command.name == "completion") rest = " SHELL";
  return fmt::format("\\fB{}\\fR{}{}\n", roff(begin),
                     command.options.empty() ? "" : " [\\fIOPTION\\fR]…", roff(rest));
}

}  // namespace

std::string manual_page(const ProgramDescription& program, const std::string& command) {
  if (command.empty()) return page_of_program(program);
  const auto found = std::ranges::find(program.commands, command, &CommandDescription::name);
  if (found == program.commands.end()) return "";
  return head("verbena-" + command, found->text) + ".SH SYNOPSIS\n" + synopsis(*found) +
         fmt::format(".SH DESCRIPTION\n{}.\n", roff(found->text)) +
         (found->options.empty() ? "" : options(found->options)) + footer(found->footer) +
         ".SH \"SEE ALSO\"\nverbena(1)\n";
}

}  // namespace verbena::tool
