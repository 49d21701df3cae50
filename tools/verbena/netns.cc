// verbena netns: two hosts to try things on, without root. "left" and "right" are network
// namespaces of one user namespace, joined by a veth pair; both end with the command.

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "tools/verbena/argv.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/lab_run.h"

namespace verbena::tool {
namespace {

// The processes that hold the two namespaces.
constexpr auto kLeftProcess = "VB_NETNS_LEFT";
constexpr auto kRightProcess = "VB_NETNS_RIGHT";

constexpr auto kGreeting =
    R"(Two hosts, connected by a cable.
left   10.99.0.1, fd99::1, device vb_left    this shell
right  10.99.0.2, fd99::2, device vb_right   verbena netns right -- COMMAND
Try:  verbena netns right -- verbena lab hello server &
      verbena lab hello client 10.99.0.2
)";

/// `next`: what the user can do, behind the reason of errno.
[[noreturn]] void fail(const std::string& what, std::string_view next = "") {
  throw std::runtime_error{fmt::format("{}: {}{}", what, std::strerror(errno), next)};
}

void write_file(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) fail(path);
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  if (!written) fail(path);
}

/// The caller becomes root of its own user namespace: it is root over these two networks only.
void enter_user_namespace() {
  const auto user = getuid();
  const auto group = getgid();
  if (unshare(CLONE_NEWUSER) != 0) {
    fail(
        "can't make a user namespace",
        ". Check sysctl kernel.unprivileged_userns_clone and user.max_user_namespaces; a container "
        "may forbid it");
  }
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", fmt::format("0 {} 1", user));
  write_file("/proc/self/gid_map", fmt::format("0 {} 1", group));
}

void enter_network_namespace() {
  if (unshare(CLONE_NEWNET) != 0) fail("can't make a network namespace");
}

/// A child that only holds the right namespace; it ends with us.
pid_t hold_right_namespace() {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWNET) != 0) _exit(kExitFailure);
    const char byte = 1;
    if (write(ends[1], &byte, 1) != 1) _exit(kExitFailure);
    close(ends[1]);
    for (;;) pause();
  }
  close(ends[1]);
  char byte = 0;
  const bool holds = read(ends[0], &byte, 1) == 1;
  close(ends[0]);
  if (!holds) {
    errno = EPERM;
    fail("can't make the right network namespace");
  }
  return child;
}

void shell(const std::string& commands) {
  const int status = std::system(("set -e; PATH=$PATH:/usr/sbin:/sbin; " + commands).c_str());
  if (status == 0) return;
  throw std::runtime_error{"the command ip failed (see above); it is in the package iproute2"};
}

/// One side's end of the cable. IPv6 addresses are usable at once, where /proc/sys can be written;
/// the link's state follows its peer's a moment later, and is waited for.
std::string configure(std::string_view name, int host) {
  return fmt::format(
      "ip link set lo up; (echo 0 > /proc/sys/net/ipv6/conf/{0}/dad_transmits) 2>/dev/null || :; "
      "ip addr add 10.99.0.{1}/24 dev {0}; "
      "[ ! -e /proc/sys/net/ipv6 ] || ip addr add fd99::{1}/64 dev {0} nodad; "
      "ip link set {0} up; ",
      name, host);
}

std::string wait_until_up(std::string_view name) {
  return fmt::format(
      "for i in $(seq 100); do ip -br link show {0} | grep -q \" UP \" && "
      "! ip -6 addr show dev {0} tentative | grep -q inet6 && exit 0; "
      "sleep 0.05; done; echo {0} did not come up >&2; exit 1; ",
      name);
}

void join(pid_t right, unsigned mtu) {
  const std::string on_the_right = fmt::format("nsenter --net=/proc/{}/ns/net sh -ec '", right);
  shell(fmt::format("ip link add left mtu {0} type veth peer name right mtu {0} netns {1}; ", mtu,
                    right) +
        configure("left", 1));
  shell(on_the_right + configure("right", 2) + wait_until_up("right") + "'");
  shell(wait_until_up("left"));
}

int execute(const std::vector<std::string>& command) {
  execvp(command.front().c_str(), argv_of(command).data());
  const int status = errno == ENOENT ? kExitNotFound : kExitRefused;
  fmt::print(stderr, "verbena netns: {}: {}\n", command.front(), std::strerror(errno));
  return status;
}

/// Within `verbena netns`: the command, in the namespace of that process.
int run_beside(const char* holder, const std::vector<std::string>& command) {
  const std::string path = fmt::format("/proc/{}/ns/net", holder);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) fail(path);
  return execute(command);
}

/// Our status is the command's; the namespaces go with us.
int run_and_wait(const std::vector<std::string>& command) {
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // the command needs the right side
    _exit(execute(command));
  }
  // The terminal's signals are the command's business.
  for (const int number : {SIGINT, SIGQUIT}) signal(number, SIG_IGN);
  return wait_for(child);
}

int run_in_new_namespaces(const NetnsOptions& options) {
  enter_user_namespace();
  enter_network_namespace();
  const pid_t right = hold_right_namespace();
  join(right, options.mtu);
  setenv(kLeftProcess, std::to_string(getpid()).c_str(), 1);
  setenv(kRightProcess, std::to_string(right).c_str(), 1);
  if (!options.command.empty()) return run_and_wait(options.command);
  fmt::print("{}", kGreeting);
  std::fflush(stdout);
  const char* const preferred = std::getenv("SHELL");
  return run_and_wait({preferred != nullptr && *preferred != '\0' ? preferred : "/bin/sh"});
}

}  // namespace

int netns(const NetnsOptions& options) {
  try {
    const char* const holder =
        options.side.empty() ? nullptr
                             : std::getenv(options.side == "left" ? kLeftProcess : kRightProcess);
    if (holder == nullptr && options.side != "right") return run_in_new_namespaces(options);
    if (holder == nullptr) {
      fmt::print(stderr,
                 "verbena netns right: this shell is not inside verbena netns; start it first, "
                 "then run this command in its shell\n");
      return kExitUsage;
    }
    if (options.command.empty()) {
      fmt::print(stderr, "verbena netns {}: COMMAND is missing\n", options.side);
      return kExitUsage;
    }
    return run_beside(holder, options.command);
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "verbena netns: {}\n", error.what());
    return kExitFailure;
  }
}

}  // namespace verbena::tool
