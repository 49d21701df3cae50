#include "front/verbs/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "front/verbs/nic.h"

namespace verbena::front {

namespace {

constexpr unsigned kFirstUverbs = 0x1'0000;

constexpr std::array<const void*, 64> kNobodysOps{};

template <std::size_t N>
void copy_text(char (&to)[N], std::string_view from) {
  const std::size_t n = std::min(from.size(), N - 1);
  std::copy_n(from.data(), n, to);
  to[n] = '\0';
}

/// Never destroyed: threads of the program may outlive our destructors.
std::vector<std::unique_ptr<Device>>& devices() {
  static auto& all = *new std::vector<std::unique_ptr<Device>>;
  return all;
}

template <typename Match>
Device* find(Match match) {
  const auto lock = lock_lists();
  for (const auto& d : devices()) {
    if (match(*d)) return d.get();
  }
  return nullptr;
}

}  // namespace

unsigned uverbs_number(const host::Device& device) { return kFirstUverbs + device.interface_index; }

Device::Device(host::Device now) : info{std::move(now)} {
  ops = kNobodysOps.data();
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  const std::string uverbs = fmt::format("uverbs{}", uverbs_number(info));
  copy_text(device.name, info.name);
  copy_text(device.dev_name, uverbs);
  copy_text(device.dev_path, "/sys/class/infiniband_verbs/" + uverbs);
  copy_text(device.ibdev_path, "/sys/class/infiniband/" + info.name);
}

Device* find_device(const ibv_device* device) {
  return find([&](const Device& d) { return &d.device == device; });
}

Device* find_device_by_path(std::string_view ibdev_path) {
  return find([&](const Device& d) { return d.device.ibdev_path == ibdev_path; });
}

std::vector<host::Device> devices_now() {
  host::Nic* const nic = live_nic.load();
  return nic != nullptr ? nic->devices() : host::list_devices();
}

std::optional<host::Device> device_now(const std::string& name) {
  if (host::Nic* const nic = live_nic.load()) return nic->find_device(name);
  for (host::Device& d : host::list_devices()) {
    if (d.name == name) return std::move(d);
  }
  return std::nullopt;
}

std::vector<ibv_device*> list_our_devices() {
  std::vector<host::Device> now = host::list_devices();
  std::vector<ibv_device*> out;
  const auto lock = lock_lists();
  for (host::Device& found : now) {
    auto known =
        std::ranges::find_if(devices(), [&](const auto& d) { return d->info.name == found.name; });
    if (known == devices().end()) {
      devices().push_back(std::make_unique<Device>(std::move(found)));
      known = std::prev(devices().end());
    } else {
      (*known)->info = std::move(found);
    }
    out.push_back(&(*known)->device);
  }
  return out;
}

}  // namespace verbena::front
