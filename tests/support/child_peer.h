#pragma once

// A peer in a process of its own that can be stopped and killed.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "system/fd.h"
#include "tests/support/peers.h"

namespace verbena::test {

template <typename Peer>
class ChildPeer {
 public:
  /// Returns when the child's peer is there. `serve` is driven meanwhile, so that it can hand out
  /// the table. The child listens on `port`, if there is one. `make` makes its peer.
  template <typename Make>
  ChildPeer(Make make, const std::vector<Peer*>& serve,
            const std::optional<registry::PortBinding>& port = std::nullopt) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    const Fd in{ends[0]};
    Fd out{ends[1]};
    pid_ = ::fork();
    if (pid_ == 0) {
      for (Peer* p : serve) p->abandon();
      live(make, port, out.get());
    }
    out.reset();
    // Read as soon as the child has written; it waits for us meanwhile.
    pollfd p{in.get(), POLLIN, 0};
    while (::poll(&p, 1, 1) == 0) {
      for (Peer* s : serve) s->turn();
    }
    if (::read(in.get(), &slot_, sizeof slot_) != sizeof slot_) {
      throw std::runtime_error("the child has no peer");
    }
  }
  ~ChildPeer() { kill(); }
  ChildPeer(const ChildPeer&) = delete;
  ChildPeer& operator=(const ChildPeer&) = delete;

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
  template <typename Make>
  [[noreturn]] static void live(Make make, const std::optional<registry::PortBinding>& port,
                                int report) {
    const std::unique_ptr<Peer> own = make();
    if (port && !listen(*own->registry, *port)) ::_exit(1);
    const auto slot = own->slot();
    if (::write(report, &slot, sizeof slot) != sizeof slot) ::_exit(1);
    // Ends itself should the test die: nobody is to be left behind.
    const auto deadline = monotonic_now() + 60s;
    while (monotonic_now() < deadline) turn_all<Peer>({own.get()}, 1000ms);
    ::_exit(0);
  }

  pid_t pid_ = 0;
  std::uint32_t slot_ = 0;
};

class ChildMember : public ChildPeer<Member> {
 public:
  explicit ChildMember(const std::vector<Member*>& serve = {},
                       const std::optional<registry::PortBinding>& port = std::nullopt)
      : ChildPeer{[] { return std::make_unique<Member>(); }, serve, port} {}
};

}  // namespace verbena::test
