#pragma once

// A wire in a process of its own that can be stopped and killed.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "wire_fixture.h"

namespace verbena::wire::test {

class ChildStation {
 public:
  /// Returns when the child's wire is open. `serve` is driven meanwhile, so that it can
  /// hand out the table. The child listens on `port`, if there is one.
  ChildStation(const IpAddress& address, const Stations& serve,
               const std::optional<PortBinding>& port = std::nullopt) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    const Fd in{ends[0]};
    Fd out{ends[1]};
    pid_ = ::fork();
    if (pid_ == 0) {
      for (auto* s : serve) s->wire->abandon();
      live(address, port, out.get());
    }
    out.reset();
    // Read as soon as the child has written; it waits for us meanwhile.
    pollfd p{in.get(), POLLIN, 0};
    while (::poll(&p, 1, 1) == 0) {
      for (auto* s : serve) s->turn();
    }
    if (::read(in.get(), &slot_, sizeof slot_) != sizeof slot_) {
      throw std::runtime_error("child has no wire");
    }
  }
  ~ChildStation() { kill(); }
  ChildStation(const ChildStation&) = delete;
  ChildStation& operator=(const ChildStation&) = delete;

  [[nodiscard]] std::uint32_t slot() const { return slot_; }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void stop() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }

 private:
  [[noreturn]] static void live(const IpAddress& address, const std::optional<PortBinding>& port,
                                int report) {
    Station own{address};
    if (port && !own.listen(*port)) ::_exit(1);
    const auto slot = own.wire->slot();
    if (::write(report, &slot, sizeof slot) != sizeof slot) ::_exit(1);
    // Ends itself should the test die: nobody is to be left behind.
    const auto deadline = monotonic_now() + 60s;
    while (monotonic_now() < deadline) turn_all({&own}, 1000ms);
    ::_exit(0);
  }

  pid_t pid_ = 0;
  std::uint32_t slot_ = 0;
};

}  // namespace verbena::wire::test
