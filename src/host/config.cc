#include "host/config.h"

#include <unistd.h>

#include <utility>

namespace verbena::host {

namespace {

Config read() {
  settings::Reading reading = settings::read_environment(environ);
  Config config{std::move(reading.settings), {}};
  if (!reading.problems.empty()) config.problem = std::move(reading.problems.front());
  return config;
}

}  // namespace

const Config& config() {
  static const Config* const kConfig = new Config{read()};
  return *kConfig;
}

}  // namespace verbena::host
