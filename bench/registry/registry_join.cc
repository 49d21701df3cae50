// How long a process takes to join the registry, by the number of peers, and with one of them
// stopped as in a debugger.
//
// Run: build/bench/registry_join

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "registry/joining.h"
#include "registry/registry.h"
#include "system/monotonic_now.h"

namespace {

using namespace verbena;

constexpr std::size_t kJoins = 50;

struct Nothing final : registry::Visitors {
  void message(const registry::PeerMessage&) override {}
  registry::Account account(std::uint32_t) override { return {}; }
};

[[noreturn]] void live(int report) {
  std::vector<std::uint8_t> memory(registry::Registry::kMessageBytes);
  auto member = registry::Registry::join(memory);
  if (!member || ::write(report, "", 1) != 1) std::_Exit(1);
  Nothing sink;
  for (;;) {
    pollfd p{(*member)->fd(), POLLIN, 0};
    ::poll(&p, 1, -1);
    (*member)->serve(sink);
  }
}

pid_t start_peer() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) std::exit(1);
  const pid_t pid = ::fork();
  if (pid == 0) live(ends[1]);
  char byte = 0;
  (void)!::read(ends[0], &byte, 1);
  ::close(ends[0]);
  ::close(ends[1]);
  return pid;
}

void measure(const char* what) {
  std::vector<double> times;
  for (std::size_t i = 0; i < kJoins; ++i) {
    const auto begin = monotonic_now();
    auto joined = registry::join_registry();
    if (!joined) {
      std::fprintf(stderr, "%s\n", joined.error().message.c_str());
      std::exit(1);
    }
    times.push_back(std::chrono::duration<double, std::milli>(monotonic_now() - begin).count());
    joined->table.release(joined->slot, monotonic_now());
  }
  std::sort(times.begin(), times.end());
  std::printf("%-28s %9.2f %9.2f\n", what, times[kJoins / 2], times.back());
}

}  // namespace

int main() {
  std::printf("%-28s %9s %9s   (ms, %zu joins)\n", "join with", "median", "worst", kJoins);
  measure("no peer (founds)");
  std::vector<pid_t> peers;
  for (const std::size_t count : {1u, 8u, 64u}) {
    while (peers.size() < count) peers.push_back(start_peer());
    std::array<char, 64> text;
    std::snprintf(text.data(), text.size(), "%zu peers", count);
    measure(text.data());
    ::kill(peers.front(), SIGSTOP);
    std::snprintf(text.data(), text.size(), "%zu peers, one stopped", count);
    measure(text.data());
    ::kill(peers.front(), SIGCONT);
  }
  for (const pid_t peer : peers) ::kill(peer, SIGKILL);
  for (const pid_t peer : peers) ::waitpid(peer, nullptr, 0);
}
