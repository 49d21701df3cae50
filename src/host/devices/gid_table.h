#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/ip_address.h"

namespace verbena::host {

/// GID tables in which nothing moves while addresses come and go: queue pairs and programs know a
/// GID by its index. An address that goes leaves a hole (a GID of zeros), and comes back to its
/// place; a new one is put behind the others. Where addresses come and go without end (temporary
/// ones of IPv6) holes are filled, so that the beginning of the table holds what there is.
class GidTables {
 public:
  /// Entries of every table, most of them empty, as hardware has: programs read the length once and
  /// then ask for entries below it. An index is 8 bits in the verbs.
  static constexpr std::size_t kLength = 128;
  /// Entries from which on a new address is put into the first hole.
  static constexpr std::size_t kRoomy = 32;

  /// The table of `device`, which has these addresses now. Addresses for which no place is left
  /// are not in it.
  [[nodiscard]] std::vector<IpAddress> stable(const std::string& device,
                                              const std::vector<IpAddress>& addresses);

 private:
  // By index: the addresses that a device has, and those whose place nobody took since.
  std::map<std::string, std::vector<IpAddress>> known_;
};

}  // namespace verbena::host
