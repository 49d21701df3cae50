#pragma once

// Two processes of this user, connected: which way their frames take.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/doctor/check.h"
#include "tools/doctor/connection_probe.h"
#include "tools/doctor/kernel_check.h"
#include "tools/doctor/limits_check.h"

namespace verbena::doctor {

struct SameHost {
  RingProbe ring;
  std::string restrictions;
  bool seccomp = false;
  ConnectionProbe connection;
};
[[nodiscard]] Finding judge_same_host(const SameHost& found);

/// What only a process with the library knows.
struct LibraryFacts {
  std::optional<AskedBuffers> buffers;
  std::string version;  // empty: unknown
  bool gpu_memory = false;
};
struct SameHostCheck {
  std::optional<Finding> finding;
  LibraryFacts facts;
};
/// Starts both processes, at this address of this host. Without an address, looks at the kernel
/// alone.
[[nodiscard]] SameHostCheck check_same_host(const std::string& address);

}  // namespace verbena::doctor
