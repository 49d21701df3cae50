#include "front/sysfs/tree.h"

#include <fmt/format.h>
#include <rdma/rdma_user_cm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>

#include "front/sysfs/attribute.h"
#include "front/sysfs/peer_memory.h"
#include "front/verbs/device.h"
#include "front/verbs/identity.h"
#include "host/devices/kernel_view.h"
#include "host/devices/rdma_netlink.h"
#include "host/devices/taken_ports.h"
#include "host/devices/without_device.h"
#include "host/observation/processes.h"
#include "host/observation/socket_buffers.h"

namespace verbena::front::sysfs {

namespace {

using Parts = std::span<const std::string_view>;

constexpr std::string_view kDevices = "/sys/devices/virtual/infiniband";
constexpr std::string_view kVerbsDevices = "/sys/devices/virtual/infiniband_verbs";
constexpr std::string_view kUverbs = "uverbs";
/// ib_uverbs' files say so of every device since 2.6.
constexpr std::string_view kVerbsAbi = "6";

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const auto end = std::min(path.find('/'), path.size());
    const auto part = path.substr(0, end);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

std::string join(Parts parts) {
  std::string out;
  for (const auto part : parts) out.append(out.empty() ? "" : "/").append(part);
  return out;
}

bool starts_with(Parts parts, std::initializer_list<std::string_view> with) {
  return parts.size() >= with.size() &&
         std::equal(with.begin(), with.end(), parts.begin(), parts.begin() + std::ssize(with));
}

bool within_ours(Parts parts) {
  return starts_with(parts, {"sys", "class", "infiniband"}) ||
         starts_with(parts, {"sys", "class", "infiniband_verbs"}) ||
         starts_with(parts, {"sys", "class", "misc", "rdma_cm"}) ||
         starts_with(parts, {"sys", "module", "verbena"}) || within_peer_memory(parts) ||
         starts_with(parts, {"sys", "devices", "virtual", "infiniband"}) ||
         starts_with(parts, {"sys", "devices", "virtual", "infiniband_verbs"}) ||
         starts_with(parts, {"dev", "infiniband"});
}

Node kernels(std::string path) { return {.path = std::move(path)}; }
Node missing(std::string path) { return {.kind = Node::Kind::missing, .path = std::move(path)}; }
Node folder(std::string path, std::vector<std::string> entries) {
  return {.kind = Node::Kind::folder, .path = std::move(path), .entries = std::move(entries)};
}
Node file(std::string path, Attribute contents) {
  return {.kind = Node::Kind::file,
          .path = std::move(path),
          .text = std::move(contents.text) + "\n",
          .readable = contents.readable};
}
Node link(std::string path, std::string target) {
  return {.kind = Node::Kind::link, .path = std::move(path), .text = std::move(target)};
}

/// The next parts of the paths in `all` that lie below `path` ("" is the top).
std::vector<std::string> entries_below(const std::vector<std::string>& all,
                                       const std::string& path) {
  std::vector<std::string> out;
  for (std::string_view entry : all) {
    if (!path.empty()) {
      if (!entry.starts_with(path) || entry.size() == path.size() || entry[path.size()] != '/') {
        continue;
      }
      entry.remove_prefix(path.size() + 1);
    }
    const auto next = entry.substr(0, entry.find('/'));
    if (std::ranges::find(out, next) == out.end()) out.emplace_back(next);
  }
  return out;
}

/// A file or folder among those that `all` lists, whose contents `read` knows.
template <typename All, typename Read>
Node among(All all, const std::string& path, std::string full, Read read) {
  if (const std::optional<Attribute> contents = read(path)) {
    return file(std::move(full), *contents);
  }
  auto entries = entries_below(all(), path);
  return entries.empty() ? missing(std::move(full)) : folder(std::move(full), std::move(entries));
}

bool exists(const std::string& path) {
  struct stat s {};
  return ::stat(path.c_str(), &s) == 0;  // the kernel's: a KernelView is active
}

/// Below "device", the parent on its bus: the interface's own where it has one.
std::optional<Node> find_parent(const host::Device& device, Parts parts) {
  const std::string interface = "/sys/class/net/" + device.interface;
  if (exists(interface + "/device")) {
    return kernels(interface + "/device" + (parts.empty() ? "" : "/" + join(parts)));
  }
  if (parts.size() >= 2 && parts[0] == "net" && parts[1] == device.interface) {
    return kernels(interface + (parts.size() == 2 ? "" : "/" + join(parts.subspan(2))));
  }
  return std::nullopt;
}

Node find_below(const host::Device& device, Parts parts) {
  if (!parts.empty() && parts.front() == "device") {
    if (auto real = find_parent(device, parts.subspan(1))) return std::move(*real);
  }
  const std::string path = join(parts);
  std::string full = fmt::format("{}/{}{}{}", kDevices, device.name, path.empty() ? "" : "/", path);
  return among([&] { return attribute_paths(device); }, path, std::move(full),
               [&](const std::string& p) { return read_attribute(device, p); });
}

std::vector<std::string> names(std::string (*name)(const host::Device&)) {
  std::vector<std::string> out;
  for (const host::Device& d : devices_now()) out.push_back(name(d));
  return out;
}

std::string device_name(const host::Device& d) { return d.name; }
std::string uverbs_name(const host::Device& d) {
  return fmt::format("{}{}", kUverbs, uverbs_number(d));
}

std::optional<host::Device> device_of_uverbs(std::string_view name) {
  for (host::Device& d : devices_now()) {
    if (uverbs_name(d) == name) return std::move(d);
  }
  return std::nullopt;
}

/// `parts` behind /sys/class/infiniband, or the folder that its links lead to.
Node find_device_node(std::string_view asked, Parts parts, bool is_link, Follow follow) {
  if (parts.empty()) return folder(std::string{asked}, names(device_name));
  const auto device = device_now(std::string{parts.front()});
  if (!device || !device->listed) return kernels(std::string{asked});
  if (is_link && parts.size() == 1 && follow == Follow::no) {
    return link(std::string{asked}, "../../devices/virtual/infiniband/" + device->name);
  }
  return find_below(*device, parts.subspan(1));
}

Node find_verbs_node(std::string_view asked, Parts parts, bool is_link, Follow follow) {
  const std::string folder_path{asked};
  if (parts.empty()) {
    auto entries = names(uverbs_name);
    entries.emplace_back("abi_version");
    return folder(folder_path, std::move(entries));
  }
  if (parts.size() == 1 && parts.front() == "abi_version") {
    return file(folder_path, std::string{kVerbsAbi});
  }
  const auto device = device_of_uverbs(parts.front());
  if (!device) return kernels(folder_path);
  if (is_link && parts.size() == 1 && follow == Follow::no) {
    return link(folder_path, fmt::format("../../devices/virtual/infiniband_verbs/{}", parts[0]));
  }
  const Parts below = parts.subspan(1);
  if (!below.empty() && below.front() == "device") return find_below(*device, below);
  static const std::vector<std::string> all{"abi_version", "dev", "ibdev", "device/"};
  return among([] { return all; }, join(below), fmt::format("{}/{}", kVerbsDevices, join(parts)),
               [&](const std::string& p) -> std::optional<Attribute> {
                 if (p == "abi_version") return "1";
                 if (p == "dev") return fmt::format("231:{}", uverbs_number(*device));
                 if (p == "ibdev") return device->name;
                 return std::nullopt;
               });
}

Node find_character_device(std::string_view asked, Parts parts) {
  const std::string path{asked};
  if (parts.empty()) {
    auto entries = names(uverbs_name);
    entries.emplace_back("rdma_cm");
    return folder(path, std::move(entries));
  }
  if (parts.size() > 1) return kernels(path);
  if (parts.front() == "rdma_cm") {
    return {.kind = Node::Kind::character_device, .path = path, .device = Node::Device::rdma_cm};
  }
  const auto device = device_of_uverbs(parts.front());
  if (!device) return kernels(path);
  return {.kind = Node::Kind::character_device, .path = path, .number = uverbs_number(*device)};
}

Node find_cm_node(std::string_view asked, Parts parts) {
  static const std::vector<std::string> all{"abi_version", "dev"};
  return among([] { return all; }, join(parts), std::string{asked},
               [](const std::string& p) -> std::optional<Attribute> {
                 if (p == "abi_version") return std::to_string(RDMA_USER_CM_ABI_VERSION);
                 if (p == "dev") {
                   const dev_t number = host::rdma_cm_number();
                   return std::to_string(major(number)) + ":" + std::to_string(minor(number));
                 }
                 return std::nullopt;
               });
}

Node find_module_node(std::string_view asked, Parts parts) {
  static const std::vector<std::string> all{"activity", "buffers",   "gpu_memory", "interfaces",
                                            "ports",    "processes", "version"};
  return among([] { return all; }, join(parts), std::string{asked},
               [](const std::string& p) -> std::optional<Attribute> {
                 if (p == "activity") return host::activity_as_json();
                 if (p == "buffers") return host::socket_buffers_as_json();
                 if (p == "gpu_memory") return "cuda";
                 if (p == "interfaces") return host::without_device_as_json();
                 if (p == "ports") return host::taken_ports_as_json();
                 if (p == "processes") return host::processes_as_json();
                 if (p == "version") return std::string{kFirmwareVersion};
                 return std::nullopt;
               });
}

/// The kernel's, where it has the module.
Node find_peer_memory_node(std::string_view asked, Parts parts) {
  const std::string path{asked};
  const Parts below = parts.subspan(parts[1] == "module" ? 3 : 5);
  if (exists(path)) return kernels(path);
  const auto version = peer_memory_version();
  if (!version || below.size() > 1) return kernels(path);
  if (below.empty()) return folder(path, {"version"});
  return below.front() == "version" ? file(path, *version) : missing(path);
}

}  // namespace

bool may_be_ours(const char* path) {
  if (path == nullptr || path[0] != '/' || host::KernelView::active()) return false;
  return std::strncmp(path, "/sys/", 5) == 0 || std::strncmp(path, "/dev/infiniband", 15) == 0;
}

Node find(std::string_view asked, Follow follow) {
  const auto all = split(asked);
  const Parts parts{all};
  const std::string path = "/" + join(parts);
  if (!within_ours(parts)) {
    // Where dots lead out of a folder that the kernel may not have, the kernel can't follow them.
    return kernels(within_ours(split(asked.substr(0, asked.find("/..")))) ? path
                                                                          : std::string{asked});
  }
  if (asked.ends_with('/')) follow = Follow::yes;
  const host::KernelView no_recursion;
  if (parts[0] == "dev") return find_character_device(path, parts.subspan(2));
  if (parts[1] == "class" && parts[2] == "misc") return find_cm_node(path, parts.subspan(4));
  if (within_peer_memory(parts)) return find_peer_memory_node(path, parts);
  if (parts[1] == "module") return find_module_node(path, parts.subspan(3));
  const bool is_link = parts[1] == "class";
  const std::size_t top = is_link ? 3 : 4;
  return parts[top - 1] == "infiniband"
             ? find_device_node(path, parts.subspan(top), is_link, follow)
             : find_verbs_node(path, parts.subspan(top), is_link, follow);
}

}  // namespace verbena::front::sysfs
