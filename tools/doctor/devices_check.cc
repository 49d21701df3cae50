#include "tools/doctor/devices_check.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "tools/doctor/child.h"
#include "tools/doctor/text.h"

namespace verbena::doctor {
namespace {

using nlohmann::json;

constexpr auto kPatience = std::chrono::seconds{20};
constexpr auto kRoceV2 = "RoCE v2";
// Below that, a packet is mostly headers. An interface of 1500 bytes carries it.
constexpr unsigned kUsualMtu = 1024;

/// Calls f(device, port) for each port of each device.
void for_each_port(const json& devices, const auto& f) {
  for (const json& device : devices) {
    for (const json& port : device.at("ports")) f(device, port);
  }
}

std::string name_of(const json& device) {
  return device.at("name").is_null() ? "" : device.at("name").get<std::string>();
}

std::string interface_of(const json& port) {
  for (const json& gid : port.at("gids")) {
    if (const auto name = gid.at("interface").get<std::string>(); !name.empty()) return name;
  }
  return "";
}

std::string counted_kinds(const json& devices) {
  std::vector<std::string> ours, others;
  for (const json& device : devices) {
    if (device.at("name").is_null()) continue;
    (device.at("verbena").get<bool>() ? ours : others).push_back(name_of(device));
  }
  std::string text = "ours: " + (ours.empty() ? "none" : listed(ours));
  return text + "; the kernel's: " + (others.empty() ? "none" : listed(others));
}

bool has_active_port(const json& devices) {
  bool found = false;
  for_each_port(devices, [&](const json&, const json& port) {
    found = found || port.at("state") == "active";
  });
  return found;
}

/// The remedies that stand in the reasons why interfaces have no device: of lo first, then others'.
std::vector<Mend> enable_an_interface(const json& devices) {
  std::vector<Mend> others;
  for (const json& entry : devices) {
    if (!entry.at("name").is_null()) continue;
    for (const std::string& command : commands_in(entry.at("problem").get<std::string>())) {
      if (entry.at("interface") == "lo") return {{command, true}};
      others.push_back({command, true});
    }
  }
  if (others.size() > 1) others.resize(1);
  if (others.empty()) others.push_back({"ip link set lo up", true});
  return others;
}

Finding judge_presence(const json& devices) {
  const std::string seen = counted_kinds(devices);
  std::vector<std::string> down;
  for_each_port(devices, [&](const json& device, const json& port) {
    if (port.at("state") != "active") {
      down.push_back(fmt::format("{} is {}", name_of(device), port.at("state").get<std::string>()));
    }
  });
  const std::string states = down.empty() ? "" : "; " + listed(down);
  if (has_active_port(devices)) return fine("devices", seen + states);
  return failure("devices", "no device has an active port: " + seen + states,
                 "Programs find no device, or can't connect on any.", enable_an_interface(devices));
}

Findings judge_problems(const json& devices) {
  Findings found;
  for (const json& device : devices) {
    if (device.at("name").is_null() || !device.contains("problem")) continue;
    found.push_back(failure(
        "devices", fmt::format("{}: {}", name_of(device), device.at("problem").get<std::string>()),
        "Programs can't open it: `ls -l /dev/infiniband` shows who may.", {}));
  }
  return found;
}

Finding judge_gids(const json& devices) {
  std::vector<std::string> addresses, without;
  for_each_port(devices, [&](const json& device, const json& port) {
    if (port.at("link") != "Ethernet") return;
    std::set<std::string> types;
    for (const json& gid : port.at("gids")) {
      types.insert(gid.at("type").get<std::string>());
      if (gid.at("type") == kRoceV2) addresses.push_back(gid.at("address"));
    }
    // "?": the kernel is too old to say.
    if (!types.contains(kRoceV2) && !types.contains("?")) without.push_back(name_of(device));
  });
  if (without.empty()) {
    return fine("gids",
                fmt::format("RoCE v2 at {}", addresses.empty() ? "no address" : listed(addresses)));
  }
  return warning("gids", fmt::format("no RoCE v2 GID: {}", listed(without)),
                 "That device speaks no RoCE v2, so it doesn't reach ours.",
                 {{"ip addr add ADDRESS/LENGTH dev INTERFACE", true}});
}

Findings judge_mtu(const json& devices) {
  Findings found;
  std::vector<std::string> all;
  for_each_port(devices, [&](const json& device, const json& port) {
    const auto mtu = port.at("active_mtu").get<unsigned>();
    const std::string name = name_of(device);
    if (mtu == 0) return;
    all.push_back(fmt::format("{} {}", name, mtu));
    if (mtu >= kUsualMtu || port.at("link") != "Ethernet") return;
    found.push_back(
        warning("mtu",
                fmt::format("{}: packets carry {} bytes, because the MTU of {} is small", name, mtu,
                            interface_of(port)),
                "More packets for the same bytes; ends that were told another MTU don't connect.",
                {{fmt::format("ip link set dev {} mtu 1500", interface_of(port)), true}}));
  });
  if (found.empty()) {
    found.push_back(fine("mtu", "bytes in a packet: " + (all.empty() ? "-" : listed(all))));
  }
  return found;
}

Mend free_the_port(const std::string& problem) {
  std::smatch match;
  if (std::regex_search(problem, match, std::regex{R"(\(pid (\d+)\))"})) {
    return {"kill " + match[1].str()};
  }
  if (std::regex_search(problem, match, std::regex{R"(the kernel's rxe \(([^)]+)\))"})) {
    return {"rdma link delete " + match[1].str(), true};
  }
  return {"verbena netns -- verbena doctor"};
}

Findings judge_ports(const json& devices) {
  Findings found;
  for_each_port(devices, [&](const json& device, const json& port) {
    for (const json& gid : port.at("gids")) {
      if (!gid.contains("problem")) continue;
      const auto problem = gid.at("problem").get<std::string>();
      const std::string seen = problem.substr(0, problem.find(": only your own"));
      found.push_back(failure(
          "port-4791",
          fmt::format("{} at {}: {}", name_of(device), gid.at("address").get<std::string>(), seen),
          "Only your own programs on this host reach each other there; other hosts don't.",
          {free_the_port(problem)}));
    }
  });
  // Interfaces whose port is rxe's have no device of ours.
  if (found.empty()) found.push_back(fine("port-4791", "UDP port 4791 is free for us everywhere"));
  return found;
}

}  // namespace

Findings judge_devices(const json& devices) {
  Findings found{judge_presence(devices)};
  for (auto& more : {judge_problems(devices), Findings{judge_gids(devices)}, judge_mtu(devices),
                     judge_ports(devices)}) {
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

Finding judge_traffic(const json& processes) {
  std::uint64_t damaged = 0, overflowed = 0;
  std::vector<std::string> silent;
  std::vector<Mend> wake;
  for (const json& process : processes) {
    const std::string name = fmt::format("{} (pid {})", process.value("program", std::string{"?"}),
                                         process.at("pid").get<int>());
    if (!process.at("answers").get<bool>()) {
      silent.push_back(name);
      wake.push_back({fmt::format("kill -CONT {}", process.at("pid").get<int>())});
      continue;
    }
    const json& wire = process.value("wire", json::object());
    damaged += wire.value("icrc_errors", std::uint64_t{0});
    overflowed += wire.value("socket_drops", std::uint64_t{0});
  }
  if (damaged > 0) {
    return warning(
        "traffic",
        fmt::format("your running programs dropped {} packets whose ICRC is wrong", damaged),
        "Something on the way rewrites addresses (NAT), or damages packets (--faults corrupt).",
        {{"verbena doctor HOST"}, {"verbena doctor --listen", false, "HOST, before it"}});
  }
  if (!silent.empty()) {
    return warning("traffic",
                   fmt::format("{} doesn't answer: it is stopped or too busy", listed(silent)),
                   "Its peers wait for it, and their retries end.", std::move(wake));
  }
  return fine("traffic", fmt::format("{} of your programs use our devices; {} packets lost at full "
                                     "sockets",
                                     processes.size(), overflowed));
}

std::string usable_address(const json& devices) {
  std::string best;
  for_each_port(devices, [&](const json& device, const json& port) {
    if (!device.at("verbena").get<bool>() || port.at("state") != "active") return;
    for (const json& gid : port.at("gids")) {
      const auto address = gid.at("address").get<std::string>();
      const bool v4 = address.find(':') == std::string::npos;
      // A link-local one needs its interface beside it.
      if (gid.contains("problem") || address.starts_with("fe80")) continue;
      if (best.empty() || (v4 && best.find(':') != std::string::npos)) best = address;
    }
  });
  return best;
}

DevicesCheck check_devices() {
  const Outcome outcome = run_program(verbena_with({"devices", "--json"}), kPatience);
  const json devices = json::parse(outcome.output, nullptr, false);
  if (!devices.is_array()) {
    const std::string seen =
        outcome.in_time ? "verbena devices: " + outcome.errors : "verbena devices doesn't end";
    return {{failure("devices", seen, "Programs find no device of ours.", {})}, ""};
  }
  return {judge_devices(devices), usable_address(devices)};
}

Finding check_traffic() {
  const Outcome outcome = run_program(verbena_with({"stat", "--json"}), kPatience);
  const json processes = json::parse(outcome.output, nullptr, false);
  if (!processes.is_array()) {
    return failure("traffic", "verbena stat: " + outcome.errors,
                   "What your programs do can't be seen.", {});
  }
  return judge_traffic(processes);
}

}  // namespace verbena::doctor
