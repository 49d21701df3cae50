#pragma once

// What the sender is asked to send: the tree below each PATH, in an order in which each folder
// comes before what is in it.

#include <sys/stat.h>

#include <string>
#include <vector>

#include "tools/transfer/descriptor.h"
#include "tools/transfer/messages.h"

namespace verbena::transfer {

struct Source {
  std::string file;  // as this process opens it
  Entry entry;       // without its id
};

struct Sources {
  std::vector<Source> all;
  std::uint64_t bytes = 0;
  std::vector<std::string> problems;  // what can't be sent
};

/// Throws std::runtime_error if two PATHs would get one name.
[[nodiscard]] Sources find_sources(const std::vector<std::string>& paths);

/// Takes over size, time, mode and identity.
void describe(Entry& entry, const struct stat& status);

}  // namespace verbena::transfer
