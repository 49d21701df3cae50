#include "tools/doctor/kernel_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tools/doctor/text.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace verbena::doctor {
namespace {

constexpr std::array kModules{
    "ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm",       "rdma_rxe", "mlx5_ib",       "mlx4_ib",
    "bnxt_re", "irdma",     "efa",     "hns_roce_hw_v2", "siw",      "nvidia_peermem"};

constexpr auto kUsersNamespaces = "/proc/sys/user/max_user_namespaces";
constexpr auto kUnprivileged = "/proc/sys/kernel/unprivileged_userns_clone";
constexpr auto kAppArmor = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

/// 0, or the errno with which a child is refused.
int try_user_namespace() {
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : errno);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return errno;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : ECANCELED;
}

std::vector<Mend> allow_user_namespaces() {
  if (read_number(kUsersNamespaces) == 0)
    return {{"sysctl -w user.max_user_namespaces=1000", true}};
  if (read_number(kUnprivileged) == 0) {
    return {{"sysctl -w kernel.unprivileged_userns_clone=1", true}};
  }
  if (read_number(kAppArmor) == 1) {
    return {{"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0", true}};
  }
  return {{"docker run --security-opt seccomp=unconfined …", false,
           "the host that starts this container"}};
}

std::string kernel_release() {
  utsname name{};
  return uname(&name) == 0 ? name.release : "?";
}

}  // namespace

std::vector<std::string> kernel_devices() { return entries_of("/sys/class/infiniband"); }

Finding judge_modules(const KernelParts& p) {
  const std::string loaded =
      p.loaded.empty() ? "no module of RDMA is loaded" : "loaded: " + listed(p.loaded);
  if (p.devices.empty()) return fine("modules", loaded + "; our devices need none");
  std::vector<std::string> missing;
  std::vector<Mend> mends;
  if (!p.verbs_files) {
    missing.emplace_back("/dev/infiniband/uverbs*");
    mends.push_back({"modprobe ib_uverbs", true});
  }
  if (!p.cm_file) {
    missing.emplace_back("/dev/infiniband/rdma_cm");
    mends.push_back({"modprobe rdma_ucm", true});
  }
  if (missing.empty()) return fine("modules", loaded);
  return failure(
      "modules",
      fmt::format("the kernel has {}, but there is no {}", listed(p.devices), listed(missing)),
      "Programs can't use that device. A container also needs `--device=/dev/infiniband`.",
      std::move(mends));
}

Finding check_modules() {
  KernelParts parts;
  parts.devices = kernel_devices();
  const auto known = modules_in(read_text("/proc/modules").value_or(""));
  for (const char* const name : kModules) {
    if (known.contains(name)) parts.loaded.emplace_back(name);
  }
  const auto files = entries_of("/dev/infiniband");
  parts.verbs_files = std::ranges::any_of(
      files, [](const std::string& name) { return name.starts_with("uverbs"); });
  parts.cm_file = std::ranges::find(files, "rdma_cm") != files.end();
  Finding finding = judge_modules(parts);
  finding.seen = fmt::format("kernel {}; {}", kernel_release(), finding.seen);
  return finding;
}

Finding check_user_namespaces() {
  const int error = try_user_namespace();
  if (error == 0) return fine("namespaces", "this user may make user namespaces");
  return warning("namespaces",
                 fmt::format("this user can't make a user namespace: {}", std::strerror(error)),
                 "`verbena netns`, two hosts on one machine, doesn't work. All else does.",
                 allow_user_namespaces());
}

RingProbe probe_ring() {
  const int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell < 0) return {errno, "eventfd"};
  close(bell);
  const int fd = memfd_create("verbena-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return {errno, "memfd_create"};
  RingProbe result;
  if (ftruncate(fd, 4096) != 0) {
    result = {errno, "ftruncate of a memfd"};
  } else if (void* const bytes = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
             bytes == MAP_FAILED) {
    result = {errno, "mmap of a memfd"};
  } else {
    munmap(bytes, 4096);
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) result = {errno, "sealing a memfd"};
  }
  close(fd);
  return result;
}

bool has_seccomp_filter() {
  return field_of(read_text("/proc/self/status").value_or(""), "Seccomp") == "2";
}

std::string restrictions() {
  std::vector<std::string> words;
  words.emplace_back(has_seccomp_filter() ? "a seccomp filter is on" : "no seccomp filter");
  if (const auto scope = read_number("/proc/sys/kernel/yama/ptrace_scope")) {
    words.push_back(fmt::format("ptrace scope {}, which rings don't need", *scope));
  }
  return listed(words);
}

}  // namespace verbena::doctor
