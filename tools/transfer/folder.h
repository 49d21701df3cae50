#pragma once

// The folder DIR that files are received into. No name leads out of it: each part of a path is
// opened relative to the one before, and no symbolic link is followed.

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "tools/transfer/descriptor.h"
#include "tools/transfer/messages.h"

namespace verbena::transfer {

/// An open folder below DIR, and a name in it.
struct Place {
  Descriptor folder;
  std::string name;
};

class Folder {
 public:
  /// DIR must exist, and no other receiver may use it. Throws std::runtime_error.
  explicit Folder(const std::string& path);

  /// Throws std::system_error, Malformed for a name that may not be.
  [[nodiscard]] Place place_of(const std::string& path) const;
  /// nullopt: nothing is there.
  [[nodiscard]] static std::optional<struct stat> status_of(const Place& place);

  /// The folder for what isn't complete; made when it is needed first.
  [[nodiscard]] int hidden();
  /// Removes it if nothing is left in it.
  void remove_hidden_if_empty();

  /// Moves `hidden_name` from the hidden folder to its place. `replace`: over what is there.
  void move_into_place(const std::string& hidden_name, const Place& place, bool replace);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor folder_;
  Descriptor hidden_;
};

/// Mode and time of a folder; those of a file are set before it gets its name.
void set_attributes(int fd, const Entry& entry, const std::string& path);

}  // namespace verbena::transfer
