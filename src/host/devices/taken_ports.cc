#include "host/devices/taken_ports.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "host/devices/device.h"
#include "host/devices/roce_interfaces.h"
#include "host/devices/udp_table.h"
#include "host/observation/json.h"
#include "packet/frame.h"
#include "registry/roll_call.h"
#include "wire/udp/udp_socket.h"

namespace verbena::host {
namespace {

namespace fs = std::filesystem;

struct Process {
  int pid = 0;
  std::string program;
};

bool holds(const fs::path& process, const std::string& socket) {
  std::error_code none;
  for (const auto& fd : fs::directory_iterator{process / "fd", none}) {
    if (fs::read_symlink(fd.path(), none) == socket) return true;
  }
  return false;
}

/// nullopt: another user's, the kernel's own, or one of another process namespace.
std::optional<Process> process_with(ino_t inode) {
  const std::string socket = fmt::format("socket:[{}]", inode);
  std::error_code none;
  for (const auto& entry : fs::directory_iterator{"/proc", none}) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds(entry.path(), socket)) continue;
    std::string program;
    std::getline(std::ifstream{entry.path() / "comm"}, program);
    return Process{std::stoi(name), program};
  }
  return std::nullopt;
}

/// The name of an rxe device of the kernel's. Its sockets are every address's.
std::optional<std::string> rxe_device() {
  const auto all = roce_interfaces();
  const auto found = std::ranges::find(all, true, &RoceInterface::rxe);
  return found != all.end() ? std::optional{found->device} : std::nullopt;
}

class Holders {
 public:
  /// Another Verbena process of this user, with which we share the port.
  [[nodiscard]] bool shares(const UdpSocketEntry& socket) {
    if (socket.owner != geteuid()) return false;
    const auto process = process_with(socket.inode);
    if (!process) return false;
    if (!roll_) roll_ = registry::call_roll();
    return std::ranges::find(*roll_, process->pid, &registry::Presence::pid) != roll_->end();
  }

  [[nodiscard]] static std::string describe(const UdpSocketEntry& socket) {
    if (const auto process = process_with(socket.inode)) {
      return fmt::format("{} (pid {})", process->program, process->pid);
    }
    if (const auto rxe = rxe_device(); rxe && socket.owner == 0) {
      return fmt::format("the kernel's rxe ({})", *rxe);
    }
    if (socket.owner != geteuid()) return fmt::format("a program of user {}", socket.owner);
    return "the kernel, or a process that is not visible from here";
  }

 private:
  std::optional<std::vector<registry::Presence>> roll_;
};

/// nullptr: it can be used.
const UdpSocketEntry* taker(const std::vector<UdpSocketEntry>& sockets, Holders& holders,
                            const LocalAddress& local) {
  const auto found = std::ranges::find_if(
      sockets, [&](const UdpSocketEntry& s) { return overlaps(s, local.address); });
  if (found == sockets.end()) return nullptr;
  // Nobody is bound beside a foreigner. And where ours are, one more would get some of their
  // frames.
  if (std::ranges::any_of(sockets, [&](const UdpSocketEntry& s) {
        return s.address == local.address && holders.shares(s);
      })) {
    return nullptr;
  }
  const auto opened = wire::open_receive_socket(local);
  return !opened && opened.error().code == EADDRINUSE ? &*found : nullptr;
}

}  // namespace

std::string holder_of_port(const IpAddress& address) {
  const auto sockets = udp_sockets_at(packet::kRocePort);
  const auto found =
      std::ranges::find_if(sockets, [&](const UdpSocketEntry& s) { return overlaps(s, address); });
  return found != sockets.end() ? Holders::describe(*found) : "somebody who has just left";
}

std::vector<TakenPort> taken_ports() {
  std::vector<TakenPort> out;
  const auto sockets = udp_sockets_at(packet::kRocePort);
  if (sockets.empty()) return out;
  Holders holders;
  for (const Device& device : list_devices()) {
    for (const IpAddress& address : device.gids) {
      if (address == IpAddress{}) continue;
      const auto* const by = taker(sockets, holders, {address, device.interface_index});
      if (by == nullptr) continue;
      const std::string holder = Holders::describe(*by);
      out.push_back({device.name, address, holder,
                     fmt::format("UDP port {} is taken by {}: only your own programs on this host "
                                 "reach each other here. For other hosts end it, or run programs "
                                 "in a network of their own, `verbena netns -- COMMAND`",
                                 packet::kRocePort, holder)});
    }
  }
  return out;
}

std::string taken_ports_as_json() {
  std::string text;
  for (const TakenPort& t : taken_ports()) {
    text +=
        fmt::format(R"({}{{"device":{},"address":{},"holder":{},"reason":{}}})",
                    text.empty() ? "" : ",", json_quoted(t.device), json_quoted(t.address.text()),
                    json_quoted(t.holder), json_quoted(t.reason));
  }
  return "[" + text + "]";
}

}  // namespace verbena::host
