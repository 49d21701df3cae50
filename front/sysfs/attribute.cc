#include "front/sysfs/attribute.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <fstream>

#include "front/sysfs/counters.h"
#include "front/verbs/identity.h"
#include "host/devices/link_rate.h"

namespace verbena::front::sysfs {

namespace {

/// Four groups of 16 bits, as in 0200:00ff:fe00:0001.
std::string guid_text(std::uint64_t g) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", g >> 48 & 0xffff, g >> 32 & 0xffff,
                     g >> 16 & 0xffff, g & 0xffff);
}

/// Eight groups of 16 bits, none left out.
std::string gid_text(const IpAddress& gid) {
  std::string out;
  for (std::size_t i = 0; i < 16; i += 2) {
    out += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.bytes()[i], gid.bytes()[i + 1]);
  }
  return out;
}

/// The first `count` processors, in words of 32 bits, the highest first.
std::string cpu_mask(std::size_t count) {
  std::string out = fmt::format("{:08x}", count % 32 == 0 ? ~0u : (1u << count % 32) - 1);
  for (std::size_t rest = (count - 1) / 32; rest > 0; --rest) out += ",ffffffff";
  return out;
}

/// The rest of `path` behind `prefix`.
std::optional<std::string_view> behind(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) return std::nullopt;
  return path.substr(prefix.size());
}

std::optional<std::size_t> gid_index(const host::Device& device, std::string_view text) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (index >= device.gids.size()) return std::nullopt;
  return index;
}

constexpr std::array kDeviceFiles{"board_id",  "fw_ver",    "hca_type",  "hw_rev",
                                  "node_desc", "node_guid", "node_type", "sys_image_guid"};
constexpr std::array kParentFiles{"local_cpulist", "local_cpus", "numa_node"};
constexpr std::array kPortFiles{"cap_mask", "lid",  "lid_mask_count", "link_layer", "phys_state",
                                "pkeys/0",  "rate", "sm_lid",         "sm_sl",      "state"};

/// A software device is near every processor.
std::optional<Attribute> read_parent_attribute(std::string_view path) {
  if (path == "numa_node") return "-1";
  if (path != "local_cpulist" && path != "local_cpus") return std::nullopt;
  std::ifstream possible{"/sys/devices/system/cpu/possible"};
  std::string list{"0"};
  possible >> list;
  if (path == "local_cpulist") return list;
  std::size_t last = 0;
  const auto digits = list.find_last_of("-,") + 1;  // npos + 1 is the start
  std::from_chars(list.data() + digits, list.data() + list.size(), last);
  return cpu_mask(last + 1);
}

/// What is said of the entry `number` of the GID table.
std::optional<Attribute> of_gid(const host::Device& device, std::string_view number,
                                const std::string& text) {
  const auto i = gid_index(device, number);
  if (!i) return std::nullopt;
  return device.gids[*i] == IpAddress{} ? Attribute::unreadable() : Attribute{text};
}

std::optional<Attribute> read_port_attribute(const host::Device& device, std::string_view path) {
  if (path == "link_layer") return "Ethernet";
  if (path == "lid" || path == "sm_lid") return "0x0";
  if (path == "lid_mask_count" || path == "sm_sl") return "0";
  if (path == "state") return device.up ? "4: ACTIVE" : "1: DOWN";
  if (path == "phys_state") return device.up ? "5: LinkUp" : "3: Disabled";
  if (path == "rate") return host::link_rate(host::link_speed(device.interface)).text();
  if (path == "cap_mask") return "0x04010000";
  if (path == "pkeys/0") return "0xffff";
  if (const auto n = behind(path, "gids/")) {
    if (const auto i = gid_index(device, *n)) return gid_text(device.gids[*i]);
  }
  if (const auto n = behind(path, "gid_attrs/types/")) return of_gid(device, *n, "RoCE v2");
  if (const auto n = behind(path, "gid_attrs/ndevs/")) return of_gid(device, *n, device.interface);
  return read_counter(device, path);
}

}  // namespace

std::optional<Attribute> read_attribute(const host::Device& device, std::string_view path) {
  if (path == "board_id") return std::string{kBoardId};
  if (path == "fw_ver") return std::string{kFirmwareVersion};
  if (path == "hca_type") return "software";
  if (path == "hw_rev") return fmt::format("{:x}", kHardwareVersion);
  if (path == "node_type") return "1: CA";
  if (path == "node_desc") return device.name;
  if (path == "node_guid" || path == "sys_image_guid") return guid_text(device.guid);
  if (const auto rest = behind(path, "device/")) return read_parent_attribute(*rest);
  if (const auto rest = behind(path, "ports/1/")) return read_port_attribute(device, *rest);
  return std::nullopt;
}

std::vector<std::string> attribute_paths(const host::Device& device) {
  std::vector<std::string> out{kDeviceFiles.begin(), kDeviceFiles.end()};
  for (const char* name : kParentFiles) out.push_back(fmt::format("device/{}", name));
  out.push_back(fmt::format("device/net/{}/", device.interface));
  for (const char* name : kPortFiles) out.push_back(fmt::format("ports/1/{}", name));
  for (const std::string& path : counter_paths(device)) out.push_back("ports/1/" + path);
  for (std::size_t i = 0; i < device.gids.size(); ++i) {
    for (const char* table : {"gids", "gid_attrs/types", "gid_attrs/ndevs"}) {
      out.push_back(fmt::format("ports/1/{}/{}", table, i));
    }
  }
  return out;
}

}  // namespace verbena::front::sysfs
