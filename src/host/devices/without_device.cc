#include "host/devices/without_device.h"

#include <fmt/format.h>

#include <optional>

#include "host/devices/netlink.h"
#include "host/log.h"
#include "host/observation/json.h"

namespace verbena::host {
namespace {

/// nullopt: it has one.
std::optional<std::string> reason_of(const Link& link, const RoceInterface* taken) {
  if (taken != nullptr && taken->rxe) {
    return fmt::format(
        "the kernel's rxe owns its UDP port 4791: use {0}, or end it with `rdma link delete {0}`",
        taken->device);
  }
  if (taken != nullptr)
    return fmt::format("it is a RoCE card with its own device: use {}", taken->device);
  if (!link.enabled()) return fmt::format("it is down: `ip link set {} up`", link.name);
  if (link.addresses.empty()) {
    return fmt::format("it has no address: `ip addr add ADDRESS/LENGTH dev {}`", link.name);
  }
  return std::nullopt;
}

}  // namespace

std::vector<WithoutDevice> without_device(const LinkTable& links,
                                          const std::vector<RoceInterface>& taken) {
  std::vector<WithoutDevice> out;
  for (const auto& [index, link] : links.all()) {
    if (link.name.empty()) continue;
    if (auto reason = reason_of(link, find_interface(taken, link.name))) {
      out.push_back({link.name, std::move(*reason)});
    }
  }
  return out;
}

std::string without_device_as_json() {
  const auto links = ask_for_links();
  if (!links) {
    log(LogLevel::warn, "can't list the network interfaces: {}", links.error().message);
    return "[]";
  }
  std::string text;
  for (const WithoutDevice& w : without_device(*links, roce_interfaces())) {
    text += fmt::format(R"({}{{"interface":{},"reason":{}}})", text.empty() ? "" : ",",
                        json_quoted(w.interface), json_quoted(w.reason));
  }
  return "[" + text + "]";
}

}  // namespace verbena::host
