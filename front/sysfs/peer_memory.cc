#include "front/sysfs/peer_memory.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>

#include "host/config.h"
#include "host/nic.h"

namespace verbena::front::sysfs {

namespace {

using Path = std::array<std::string_view, 5>;
constexpr std::array<Path, 3> kFolders{{{"sys", "module", "nvidia_peermem"},
                                        {"sys", "module", "nv_peer_mem"},
                                        {"sys", "kernel", "mm", "memory_peers", "nv_mem"}}};

bool kernel_has_devices() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder{opendir("/sys/class/infiniband"), closedir};
  if (!folder) return false;
  while (const dirent* entry = readdir(folder.get())) {
    if (entry->d_name[0] != '.') return true;
  }
  return false;
}

}  // namespace

bool within_peer_memory(std::span<const std::string_view> parts) {
  return std::ranges::any_of(kFolders, [&](const Path& folder) {
    const auto end = std::ranges::find(folder, std::string_view{});
    const auto depth = static_cast<std::size_t>(end - folder.begin());
    return parts.size() >= depth && std::equal(folder.begin(), end, parts.begin());
  });
}

std::optional<std::string> peer_memory_version() {
  if (!host::Nic::has_gpu_driver() && access("/dev/nvidiactl", F_OK) != 0) return std::nullopt;
  if (!host::config().only && kernel_has_devices()) return std::nullopt;
  std::string version;
  std::getline(std::ifstream{"/sys/module/nvidia/version"} >> std::ws, version);
  return version.empty() ? "verbena" : version;
}

}  // namespace verbena::front::sysfs
