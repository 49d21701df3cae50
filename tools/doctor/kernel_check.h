#pragma once

// What the kernel has and allows: modules, user namespaces, and the calls that rings need.

#include <string>
#include <vector>

#include "tools/doctor/check.h"

namespace verbena::doctor {

/// Devices that the kernel itself has: hardware's and rxe's.
[[nodiscard]] std::vector<std::string> kernel_devices();

struct KernelParts {
  std::vector<std::string> devices;  // kernel_devices()
  std::vector<std::string> loaded;   // modules of RDMA
  bool verbs_files = false;          // /dev/infiniband/uverbs*
  bool cm_file = false;              // /dev/infiniband/rdma_cm
};
[[nodiscard]] Finding judge_modules(const KernelParts& parts);
[[nodiscard]] Finding check_modules();

[[nodiscard]] Finding check_user_namespaces();

/// Can this process make the memory of a ring? 0, or the errno of the call that failed.
struct RingProbe {
  int error = 0;
  std::string call;
};
[[nodiscard]] RingProbe probe_ring();

/// "a seccomp filter is on; ptrace scope 1": what restricts processes here.
[[nodiscard]] std::string restrictions();
[[nodiscard]] bool has_seccomp_filter();

}  // namespace verbena::doctor
