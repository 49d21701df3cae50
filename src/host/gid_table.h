#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/ip_address.h"

namespace verbena::host {

/// GID tables in which nothing moves while addresses come and go: queue pairs and programs know a
/// GID by its index. An address that goes leaves a hole (a GID of zeros), and comes back to its
/// place; a new one is put behind the others.
class GidTables {
 public:
  /// The table of `device`, which has these addresses now.
  [[nodiscard]] std::vector<IpAddress> stable(const std::string& device,
                                              const std::vector<IpAddress>& addresses);

 private:
  std::map<std::string, std::vector<IpAddress>> known_;  // every address that a device ever had
};

}  // namespace verbena::host
