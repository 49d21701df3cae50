// `verbena devices`: what a program under `verbena run` sees, through the plain C API.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "settings/settings.h"
#include "tools/doctor/gpu_check.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/library_view.h"

namespace verbena::tool {
namespace {

constexpr std::string_view kOurPrefix = "vb_";

struct Gid {
  unsigned index = 0;
  std::string type;
  std::string address;
  std::string interface;  // empty: unknown
  std::string problem;    // why no queue pair can be set up at it; empty: one can
};

struct Port {
  unsigned number = 0;
  std::string state;
  unsigned active_mtu = 0;
  unsigned max_mtu = 0;
  std::string link;
  std::vector<Gid> gids;
};

/// An interface that has no device of ours.
struct Interface {
  std::string name;
  std::string reason;
};

struct Device {
  std::string name;
  bool ours = false;
  std::string problem;  // why it could not be read; empty: it could
  std::vector<Port> ports;
};

struct CloseDevice {
  void operator()(ibv_context* context) const { ibv_close_device(context); }
};

std::string state_name(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_NOP:
      return "nop";
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "init";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    case IBV_PORT_ACTIVE_DEFER:
      return "active-defer";
  }
  return fmt::format("state {}", static_cast<int>(state));
}

/// Bytes; 0 for a value outside of enum ibv_mtu.
unsigned mtu_bytes(ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << static_cast<unsigned>(mtu) : 0;
}

std::string type_name(std::uint32_t type) {
  switch (type) {
    case IBV_GID_TYPE_IB:
      return "IB";
    case IBV_GID_TYPE_ROCE_V1:
      return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2:
      return "RoCE v2";
    default:
      return fmt::format("type {}", type);
  }
}

/// IPv4-mapped GIDs as IPv4 addresses.
std::string gid_text(const ibv_gid& gid) {
  static constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const bool four = std::equal(kMapped.begin(), kMapped.end(), std::begin(gid.raw));
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(four ? AF_INET : AF_INET6, gid.raw + (four ? kMapped.size() : 0), text.data(),
            text.size());
  return text.data();
}

bool is_empty(const ibv_gid& gid) {
  return std::ranges::all_of(gid.raw, [](std::uint8_t byte) { return byte == 0; });
}

std::optional<Gid> read_gid(ibv_context* context, std::uint8_t port, unsigned index) {
  ibv_gid_entry entry{};
  if (ibv_query_gid_ex(context, port, index, &entry, 0) == 0) {
    if (is_empty(entry.gid)) return std::nullopt;
    std::array<char, IF_NAMESIZE> name{};
    const bool named = entry.ndev_ifindex != 0 && if_indextoname(entry.ndev_ifindex, name.data());
    return Gid{index, type_name(entry.gid_type), gid_text(entry.gid), named ? name.data() : "", ""};
  }
  // Without the extended query (kernels before 5.10) the type stays unknown.
  ibv_gid gid{};
  if (ibv_query_gid(context, port, static_cast<int>(index), &gid) != 0 || is_empty(gid)) {
    return std::nullopt;
  }
  return Gid{index, "?", gid_text(gid), "", ""};
}

Port read_port(ibv_context* context, std::uint8_t number) {
  Port port;
  port.number = number;
  ibv_port_attr attributes{};
  if (const int error = ibv_query_port(context, number, &attributes); error != 0) {
    port.state = std::strerror(error);
    return port;
  }
  port.state = state_name(attributes.state);
  port.active_mtu = mtu_bytes(attributes.active_mtu);
  port.max_mtu = mtu_bytes(attributes.max_mtu);
  port.link = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
  for (int i = 0; i < attributes.gid_tbl_len; ++i) {
    if (auto gid = read_gid(context, number, static_cast<unsigned>(i))) {
      port.gids.push_back(std::move(*gid));
    }
  }
  return port;
}

Device read_device(ibv_device* handle) {
  Device device;
  device.name = ibv_get_device_name(handle);
  device.ours = device.name.starts_with(kOurPrefix);
  const std::unique_ptr<ibv_context, CloseDevice> context{ibv_open_device(handle)};
  ibv_device_attr attributes{};
  if (!context) {
    device.problem = fmt::format("ibv_open_device: {}", std::strerror(errno));
  } else if (const int error = ibv_query_device(context.get(), &attributes); error != 0) {
    device.problem = fmt::format("ibv_query_device: {}", std::strerror(error));
  } else {
    for (unsigned port = 1; port <= attributes.phys_port_cnt; ++port) {
      device.ports.push_back(read_port(context.get(), static_cast<std::uint8_t>(port)));
    }
  }
  return device;
}

void print_table(std::span<const Device> devices) {
  constexpr auto kRow = "{:<16} {:<9} {:>4}  {:<8} {:>9}  {:>3}  {:<8} {:<12} {}\n";
  fmt::print(kRow, "DEVICE", "KIND", "PORT", "STATE", "MTU", "GID", "TYPE", "INTERFACE", "ADDRESS");
  for (const Device& device : devices) {
    const auto* const kind = device.ours ? "verbena" : "hardware";
    if (!device.problem.empty()) {
      fmt::print("{:<16} {:<9} {}\n", device.name, kind, device.problem);
    }
    for (const Port& port : device.ports) {
      const auto mtu = fmt::format("{}/{}", port.active_mtu, port.max_mtu);
      if (port.gids.empty()) {
        fmt::print(kRow, device.name, kind, port.number, port.state, mtu, "-", "-", "-", "-");
      }
      bool first = true;
      for (const Gid& gid : port.gids) {
        if (first) {
          fmt::print(kRow, device.name, kind, port.number, port.state, mtu, gid.index, gid.type,
                     gid.interface, gid.address);
        } else {
          fmt::print(kRow, "", "", "", "", "", gid.index, gid.type, gid.interface, gid.address);
        }
        first = false;
      }
    }
  }
}

/// What the library says of the UDP port at each address.
void read_problems(std::vector<Device>& devices) {
  for (const auto& taken : read_library_file("ports")) {
    for (Device& device : devices) {
      if (taken.at("device") != device.name) continue;
      for (Port& port : device.ports) {
        for (Gid& gid : port.gids) {
          if (taken.at("address") == gid.address) gid.problem = taken.at("reason");
        }
      }
    }
  }
}

void print_problems(std::span<const Device> devices) {
  bool first = true;
  for (const Device& device : devices) {
    for (const Port& port : device.ports) {
      for (const Gid& gid : port.gids) {
        if (gid.problem.empty()) continue;
        if (first) fmt::print("\n{:<16} {:>3}  WHAT PROGRAMS CAN'T DO THERE\n", "DEVICE", "GID");
        first = false;
        fmt::print("{:<16} {:>3}  {}: {}\n", device.name, gid.index, gid.address, gid.problem);
      }
    }
  }
}

std::vector<Interface> read_interfaces() {
  std::vector<Interface> found;
  for (const auto& entry : read_library_file("interfaces")) {
    found.push_back({entry.at("interface"), entry.at("reason")});
  }
  return found;
}

void print_interfaces(std::span<const Interface> interfaces) {
  if (interfaces.empty()) return;
  fmt::print("\n{:<16} WHY IT HAS NO DEVICE\n", "INTERFACE");
  for (const Interface& i : interfaces) fmt::print("{:<16} {}\n", i.name, i.reason);
}

/// Those whose memory programs can register.
std::vector<std::string> read_gpus() {
  return doctor::library_registers_gpu_memory() ? doctor::find_gpus().names
                                                : std::vector<std::string>{};
}

void print_gpus(std::span<const std::string> gpus) {
  if (gpus.empty()) return;
  fmt::print("\n{:<16} HOW ITS MEMORY IS REGISTERED\n", "GPU");
  for (const std::string& gpu : gpus) {
    fmt::print("{:<16} ibv_reg_mr with a pointer of CUDA's, or ibv_reg_dmabuf_mr\n", gpu);
  }
}

void print_json(std::span<const Device> devices, std::span<const Interface> interfaces,
                std::span<const std::string> gpus) {
  auto list = nlohmann::json::array();
  for (const Device& device : devices) {
    auto ports = nlohmann::json::array();
    for (const Port& port : device.ports) {
      auto gids = nlohmann::json::array();
      for (const Gid& gid : port.gids) {
        gids.push_back({{"index", gid.index},
                        {"type", gid.type},
                        {"address", gid.address},
                        {"interface", gid.interface}});
        if (!gid.problem.empty()) gids.back()["problem"] = gid.problem;
      }
      ports.push_back({{"port", port.number},
                       {"state", port.state},
                       {"active_mtu", port.active_mtu},
                       {"max_mtu", port.max_mtu},
                       {"link", port.link},
                       {"gids", std::move(gids)}});
    }
    nlohmann::json entry{
        {"name", device.name}, {"verbena", device.ours}, {"ports", std::move(ports)}};
    if (!device.problem.empty()) entry["problem"] = device.problem;
    list.push_back(std::move(entry));
  }
  for (const Interface& i : interfaces) {
    list.push_back({{"name", nullptr},
                    {"verbena", false},
                    {"ports", nlohmann::json::array()},
                    {"interface", i.name},
                    {"problem", i.reason}});
  }
  for (const std::string& gpu : gpus) {
    list.push_back({{"name", nullptr},
                    {"verbena", false},
                    {"ports", nlohmann::json::array()},
                    {"gpu", gpu},
                    {"registered_by", {"ibv_reg_mr", "ibv_reg_dmabuf_mr"}}});
  }
  fmt::print("{}\n", list.dump(2));
}

/// Ours first, each kind in the order of the list.
std::vector<Device> read_devices() {
  int count = 0;
  const std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)> list{
      ibv_get_device_list(&count), &ibv_free_device_list};
  if (!list) throw std::runtime_error{fmt::format("ibv_get_device_list: {}", std::strerror(errno))};
  std::vector<Device> found;
  for (ibv_device* handle : std::span{list.get(), static_cast<std::size_t>(count)}) {
    found.push_back(read_device(handle));
  }
  std::stable_partition(found.begin(), found.end(), [](const Device& d) { return d.ours; });
  read_problems(found);
  return found;
}

int show(const DevicesOptions& options) {
  const auto found = read_devices();
  const auto interfaces = read_interfaces();
  const auto gpus = read_gpus();
  if (options.json) {
    print_json(found, interfaces, gpus);
  } else {
    if (!found.empty()) print_table(found);
    print_problems(found);
    print_interfaces(interfaces);
    print_gpus(gpus);
  }
  if (!found.empty()) return 0;
  return fail("devices", kExitFailure, "no device: no network interface is up and has an address");
}

}  // namespace

int devices(const DevicesOptions& options, char** argv) {
  const auto problems = settings::read_environment(environ).problems;
  if (!problems.empty()) return fail("devices", kExitUsage, problems.front());
  try {
    enter_library_view(argv);
    return show(options);
  } catch (const std::exception& error) {
    return fail("devices", kExitFailure, error.what());
  }
}

}  // namespace verbena::tool
