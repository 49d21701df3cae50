#include "labs/common/own_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>

#include "labs/common/negative.h"

namespace lab {
namespace {

CLI::Validator within(Between between) {
  return CLI::Validator{
      [between](const std::string& text) -> std::string {
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error == std::errc::result_out_of_range) return text + " is too large";
        if (error != std::errc{} || end != text.data() + text.size()) {
          return text + " is not a number";
        }
        if (number >= between.least && number <= between.most) return "";
        return between.most == Between{}.most
                   ? fmt::format("{}: choose at least {}", text, between.least)
                   : fmt::format("{} is not between {} and {}", text, between.least, between.most);
      },
      between.most == Between{}.most ? "" : fmt::format("{} to {}", between.least, between.most)};
}

/// The transform that is added last looks first.
CLI::Option* sized(CLI::Option* option, Between between) {
  return option->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator{negative_problem, ""})
      ->check(within(between));
}

}  // namespace

void OwnOptions::add_number(const char* name, const char* type, const std::string& usual,
                            Between between, const std::string& help,
                            std::function<void(std::uint64_t)> take) {
  app_.add_option_function<std::uint64_t>(name, std::move(take), help)
      ->check(CLI::Validator{negative_problem, ""})
      ->check(within(between))
      ->type_name(type)
      ->default_str(usual);
}

void OwnOptions::bytes(const char* name, std::uint64_t& value, Between between,
                       const std::string& help) {
  sized(app_.add_option(name, value, help), between)->type_name("BYTES")->capture_default_str();
}

void OwnOptions::list(const char* name, std::vector<std::uint64_t>& values, Between between,
                      const std::string& help) {
  sized(app_.add_option(name, values, help)->delimiter(','), between)
      ->type_name("N,…")
      ->capture_default_str();
}

void OwnOptions::list(const char* name, std::vector<double>& values,
                      std::function<std::string(double)> problem, const std::string& help) {
  const auto check = [problem = std::move(problem)](const std::string& text) {
    double number = 0;
    return CLI::detail::lexical_cast(text, number)
               ? problem(number)
               : problem(std::numeric_limits<double>::quiet_NaN());
  };
  app_.add_option(name, values, help)
      ->delimiter(',')
      ->check(CLI::Validator{check, ""})
      ->type_name("N,…")
      ->capture_default_str();
}

void OwnOptions::text(const char* name, std::string& value, const std::string& help,
                      const char* type) {
  app_.add_option(name, value, help)->type_name(type)->capture_default_str();
}

void OwnOptions::existing_file(const char* name, std::string& value, const std::string& help) {
  app_.add_option(name, value, help)->check(CLI::ExistingFile);
}

void OwnOptions::existing_folder(const char* name, std::string& value, const std::string& help) {
  app_.add_option(name, value, help)->check(CLI::ExistingDirectory);
}

void OwnOptions::add_choice(const char* name, const std::vector<std::string>& of,
                            const std::string& usual, const std::string& help,
                            std::function<void(std::size_t)> take) {
  app_.add_option_function<std::string>(
          name,
          [of, take = std::move(take)](const std::string& given) {
            take(static_cast<std::size_t>(std::ranges::find(of, given) - of.begin()));
          },
          help)
      ->check(CLI::IsMember(of))
      ->type_name("NAME")
      ->default_str(usual);
}

void OwnOptions::flag(const char* name, bool& value, const std::string& help) {
  app_.add_flag(name, value, help);
}

void OwnOptions::means(const char* name, const std::string& help, Between between) {
  app_.get_option(name)->description(help)->check(within(between));
}

void OwnOptions::needs(const char* name, const char* other) {
  app_.get_option(name)->needs(app_.get_option(other));
}

void OwnOptions::finally(std::function<std::string()> problem) {
  app_.final_callback([problem = std::move(problem)] {
    if (std::string found = problem(); !found.empty()) throw CLI::ValidationError{found};
  });
}

}  // namespace lab
