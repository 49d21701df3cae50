// What labs tell the device by its variables.

#include "labs/common/options.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr std::array kVariables{"VERBENA_WIRE", "VERBENA_TRACE", "VERBENA_PCAP"};

/// Parses, with an environment of its own.
class LabOptions : public testing::Test {
 protected:
  LabOptions() {
    for (const char* const name : kVariables) {
      if (const char* const value = std::getenv(name)) before_[name] = value;
      unsetenv(name);
    }
  }
  ~LabOptions() override {
    for (const char* const name : kVariables) {
      if (before_.contains(name)) {
        setenv(name, before_[name].c_str(), 1);
      } else {
        unsetenv(name);
      }
    }
  }

  static void parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "lab");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    (void)lab::parse(static_cast<int>(arguments.size()), argv.data(), {.name = "test"});
  }
  static std::optional<std::string> variable(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? std::optional<std::string>{value} : std::nullopt;
  }

 private:
  std::map<std::string, std::string> before_;
};

TEST_F(LabOptions, NothingIsSetForNothing) {
  parse({});
  for (const char* const name : kVariables) EXPECT_EQ(variable(name), std::nullopt) << name;
}

TEST_F(LabOptions, ATraceIsOfTheWireOnWhichPacketsAreSeen) {
  parse({"--trace", "out.jsonl"});
  EXPECT_EQ(variable("VERBENA_TRACE"), "out.jsonl");
  EXPECT_EQ(variable("VERBENA_WIRE"), "udp");
}

TEST_F(LabOptions, SoIsACapture) {
  parse({"--pcap", "out.pcapng"});
  EXPECT_EQ(variable("VERBENA_PCAP"), "out.pcapng");
  EXPECT_EQ(variable("VERBENA_WIRE"), "udp");
}

TEST_F(LabOptions, TheUsersWireStays) {
  setenv("VERBENA_WIRE", "another", 1);
  parse({"--trace", "out.jsonl"});
  EXPECT_EQ(variable("VERBENA_WIRE"), "another");
}

}  // namespace
