#include "tools/doctor/limits_check.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/doctor/text.h"

namespace verbena::doctor {
namespace {

// What MPI and perftest register for a few queue pairs.
constexpr rlim_t kEnoughMemory = rlim_t{64} << 20;
// A process connected to a hundred others by rings has about so many descriptors of ours.
constexpr rlim_t kEnoughFiles = 1024;

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : bytes_text(limit);
}

/// As much as the hard limit allows, by the shell itself; else by root, for this shell.
std::vector<Mend> raise_limit(const char* flag, const char* option, rlim_t hard, rlim_t enough,
                              rlim_t unit, const char* most) {
  if (hard == RLIM_INFINITY || hard >= enough) {
    return {{hard == RLIM_INFINITY ? fmt::format("ulimit -S {} {}", flag, most)
                                   : fmt::format("ulimit -S {} {}", flag, hard / unit)}};
  }
  return {{fmt::format("prlimit --pid $$ --{}={}", option, most), true}};
}

/// What a socket of ours gets; 0: it can't be said. The kernel doubles the number.
std::uint64_t granted(int option, std::uint64_t asked) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  const int wish = static_cast<int>(asked);
  int got = 0;
  socklen_t size = sizeof got;
  // If it is refused, the default stays.
  (void)setsockopt(fd, SOL_SOCKET, option, &wish, sizeof wish);
  const bool known = getsockopt(fd, SOL_SOCKET, option, &got, &size) == 0;
  close(fd);
  return known && got > 0 ? static_cast<std::uint64_t>(got) / 2 : 0;
}

}  // namespace

Finding judge_memlock(const rlimit& limit, const std::vector<std::string>& others) {
  const std::string seen = fmt::format("locked memory: {}", limit_text(limit.rlim_cur));
  if (others.empty()) return fine("memlock", seen + "; our devices pin none");
  if (limit.rlim_cur >= kEnoughMemory) return fine("memlock", seen);
  return warning("memlock", fmt::format("{}; {} pins what programs register", seen, listed(others)),
                 "Programs that register more fail with ENOMEM on that device.",
                 raise_limit("-l", "memlock", limit.rlim_max, kEnoughMemory, 1024, "unlimited"));
}

Finding judge_open_files(const rlimit& limit) {
  const std::string seen = limit.rlim_cur == RLIM_INFINITY
                               ? "open files: unlimited"
                               : fmt::format("open files: {} for each process", limit.rlim_cur);
  if (limit.rlim_cur >= kEnoughFiles) return fine("open-files", seen);
  return warning(
      "open-files", seen,
      "Devices, queue pairs' sockets and rings to other processes take descriptors: set-up calls "
      "fail with EMFILE.",
      raise_limit("-n", "nofile", limit.rlim_max, kEnoughFiles, 1, "4096"));
}

Finding judge_buffer(const SocketBuffer& b) {
  if (b.got == 0) return fine(b.id, "no UDP socket can be opened: see the other findings");
  if (b.got >= b.asked) {
    return fine(b.id, fmt::format("{} allows the {} that the UDP wire asks for", b.setting,
                                  bytes_text(b.asked)));
  }
  return warning(b.id,
                 fmt::format("{} allows {} of the {} that the UDP wire asks for", b.setting,
                             bytes_text(b.got), bytes_text(b.asked)),
                 b.effect,
                 {{fmt::format("sysctl -w {}={}", b.setting, b.asked), true,
                   b.shown ? "here" : "the host of this network namespace"}});
}

Findings check_limits(const std::vector<std::string>& others,
                      const std::optional<AskedBuffers>& asked) {
  rlimit memory{}, files{};
  getrlimit(RLIMIT_MEMLOCK, &memory);
  getrlimit(RLIMIT_NOFILE, &files);
  Findings found{judge_memlock(memory, others), judge_open_files(files)};
  if (!asked) return found;
  const auto shown = [](const char* name) {
    return access(fmt::format("/proc/sys/net/core/{}", name).c_str(), F_OK) == 0;
  };
  found.push_back(judge_buffer(
      {"rmem", "net.core.rmem_max", asked->receive, granted(SO_RCVBUF, asked->receive),
       "Several senders at once, or a sender that isn't Verbena, overflow the receiver: UC and UD "
       "lose messages, RC sends again.",
       shown("rmem_max")}));
  found.push_back(judge_buffer(
      {"wmem", "net.core.wmem_max", asked->send, granted(SO_SNDBUF, asked->send),
       "A sender of long messages waits for the kernel more often.", shown("wmem_max")}));
  return found;
}

}  // namespace verbena::doctor
