#include "host/devices/gid_table.h"

#include <algorithm>

namespace verbena::host {

std::vector<IpAddress> GidTables::stable(const std::string& device,
                                         const std::vector<IpAddress>& addresses) {
  const auto has = [](const std::vector<IpAddress>& all, const IpAddress& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  std::vector<IpAddress>& known = known_[device];
  for (const IpAddress& a : addresses) {
    if (has(known, a)) continue;
    const auto hole = known.size() < kRoomy
                          ? known.end()
                          : std::find_if(known.begin(), known.end(),
                                         [&](const auto& old) { return !has(addresses, old); });
    if (hole != known.end()) {
      *hole = a;
    } else if (known.size() < kLength) {
      known.push_back(a);
    }
  }
  std::vector<IpAddress> table = known;
  for (IpAddress& a : table) {
    if (!has(addresses, a)) a = IpAddress{};
  }
  table.resize(kLength);
  return table;
}

}  // namespace verbena::host
