#pragma once

// The options that only one lab takes. CLI11, which reads them, is compiled once, behind this: in
// each lab it would take longer than the lab.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace lab {

struct Between {
  std::uint64_t least = 0, most = ~std::uint64_t{0};
};

/// Each shows its default in --help, and refuses what is out of its range. What they fill must
/// live until the command line has been read.
class OwnOptions {
 public:
  explicit OwnOptions(CLI::App& app) : app_{app} {}

  template <std::integral T>
  void number(const char* name, T& value, Between between, const std::string& help) {
    add_number(name, "N", std::to_string(value), between, help,
               [&value](std::uint64_t given) { value = static_cast<T>(given); });
  }
  template <std::integral T>
  void number(const char* name, std::optional<T>& value, Between between, const std::string& help) {
    add_number(name, "N", "", between, help,
               [&value](std::uint64_t given) { value = static_cast<T>(given); });
  }
  void microseconds(const char* name, std::chrono::microseconds& value, Between between,
                    const std::string& help) {
    add_number(name, "MICROSECONDS", std::to_string(value.count()), between, help,
               [&value](std::uint64_t given) { value = std::chrono::microseconds{given}; });
  }
  /// Takes K, M, G as well.
  void bytes(const char* name, std::uint64_t& value, Between between, const std::string& help);
  void list(const char* name, std::vector<std::uint64_t>& values, Between between,
            const std::string& help);
  /// Numbers with a fraction; `problem` says what is wrong with one of them, or nothing.
  void list(const char* name, std::vector<double>& values,
            std::function<std::string(double)> problem, const std::string& help);

  void text(const char* name, std::string& value, const std::string& help,
            const char* type = "TEXT");
  void existing_file(const char* name, std::string& value, const std::string& help);
  void existing_folder(const char* name, std::string& value, const std::string& help);

  template <typename T>
  using Choices = std::vector<std::pair<std::string, T>>;
  template <typename T>
  void choice(const char* name, T& value, const Choices<std::type_identity_t<T>>& of,
              const std::string& help) {
    std::vector<std::string> names;
    std::string usual;
    for (const auto& [each, meaning] : of) {
      names.push_back(each);
      if (meaning == value) usual = each;
    }
    add_choice(name, names, usual, help,
               [&value, of](std::size_t given) { value = of[given].second; });
  }
  /// With "!--name" it becomes false.
  void flag(const char* name, bool& value, const std::string& help);

  /// For an option that all labs have: what it means in this one.
  void means(const char* name, const std::string& help, Between between = {});
  /// The first is useless without the second.
  void needs(const char* name, const char* other);
  /// What is wrong with all of them together, or nothing; asked when they have been read.
  void finally(std::function<std::string()> problem);

 private:
  void add_number(const char* name, const char* type, const std::string& usual, Between between,
                  const std::string& help, std::function<void(std::uint64_t)> take);
  void add_choice(const char* name, const std::vector<std::string>& of, const std::string& usual,
                  const std::string& help, std::function<void(std::size_t)> take);

  CLI::App& app_;
};

}  // namespace lab
