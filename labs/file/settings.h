#pragma once

// What both ends of the lab share: the options that only it takes, and the word for no.

#include <cstddef>
#include <cstdint>
#include <string>

#include "labs/common/lab.h"

enum class Break : std::uint8_t { nothing, hash, truncate, die };

struct Settings {
  std::string file;  // empty: one is made
  std::string into;  // empty: a folder that goes afterwards
  std::size_t piece = 64 << 10;
  std::uint64_t most = std::uint64_t{1} << 30;
  std::uint64_t id = 42;
  Break broken = Break::nothing;
};
extern Settings settings;

/// Nothing is kept of this file.
struct Refused : lab::Failed {
  using Failed::Failed;
};

void receiver(const lab::Options& options);
void sender(const lab::Options& options);
