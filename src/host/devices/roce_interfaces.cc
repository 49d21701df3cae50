#include "host/devices/roce_interfaces.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "host/devices/kernel_view.h"
#include "host/devices/netlink.h"

namespace verbena::host {
namespace {

namespace fs = std::filesystem;

/// Adds the interfaces behind a port's GIDs, each once.
void add_interfaces(const fs::path& port, const RoceInterface& of,
                    std::vector<RoceInterface>& all) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator{port / "gid_attrs/ndevs", none}) {
    std::ifstream file{entry.path()};
    std::string name;
    if (!(file >> name) || find_interface(all, name) != nullptr) continue;
    all.push_back({name, of.device, of.rxe});
  }
}

}  // namespace

std::vector<RoceInterface> roce_interfaces() {
  const KernelView without_ours;
  std::vector<RoceInterface> all;
  std::error_code none;
  for (const auto& device : fs::directory_iterator{"/sys/class/infiniband", none}) {
    // Only rxe has this file, which names its interface.
    const RoceInterface of{"", device.path().filename(),
                           fs::exists(device.path() / "parent", none)};
    for (const auto& port : fs::directory_iterator{device.path() / "ports", none}) {
      add_interfaces(port.path(), of, all);
    }
  }
  return all;
}

std::optional<RoceInterface> roce_interface_with(const IpAddress& address) {
  const auto all = roce_interfaces();
  const auto links = ask_for_links();
  if (all.empty() || !links) return std::nullopt;
  for (const auto& [index, link] : links->all()) {
    const auto* const found = find_interface(all, link.name);
    if (found == nullptr) continue;
    if (std::ranges::find(link.addresses, address, &Link::Address::address) !=
        link.addresses.end()) {
      return *found;
    }
  }
  return std::nullopt;
}

const RoceInterface* find_interface(const std::vector<RoceInterface>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &RoceInterface::name);
  return found != all.end() ? &*found : nullptr;
}

}  // namespace verbena::host
