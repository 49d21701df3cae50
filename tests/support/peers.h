#pragma once

// Processes of a registry in a test, and the means to drive them: everything waits on descriptors
// with a deadline, nothing sleeps. A peer has slot(), descriptors(), turn() and abandon().

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "registry/registry.h"
#include "system/monotonic_now.h"

namespace verbena::test {

using namespace std::chrono_literals;

/// Test programs that run at the same time must not share an address: the process is in it.
inline IpAddress loopback(std::uint8_t last) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return IpAddress::v4(
      {127, static_cast<std::uint8_t>(7 + (pid >> 8) % 240), static_cast<std::uint8_t>(pid), last});
}

/// The port table is common to all test programs that run at the same time: so is the reason.
inline std::uint16_t test_port(std::uint16_t offset) {
  return static_cast<std::uint16_t>(2000 + (::getpid() * 64 + offset) % 28'000);
}

/// nullopt: it can't have the port.
inline std::optional<registry::PortId> listen(registry::Registry& registry,
                                              const registry::PortBinding& port) {
  const auto bound = registry.bind_port(port);
  if (!bound || !registry.listen_port(bound->id)) return std::nullopt;
  return bound->id;
}

/// One that is in the registry and nothing else.
class Member final : registry::Visitors {
 public:
  Member() : memory_(registry::Registry::kMessageBytes) {
    auto joined = registry::Registry::join(memory_);
    if (!joined) throw std::runtime_error(joined.error().message);
    registry = std::move(joined).value();
  }

  [[nodiscard]] std::uint32_t slot() const { return registry->slot(); }
  [[nodiscard]] std::vector<int> descriptors() const { return {registry->fd()}; }
  void turn() {
    registry->serve(*this);
    registry->work(monotonic_now());
  }
  void abandon() { registry->abandon(); }

  void message(const registry::PeerMessage& message) override {
    messages.emplace_back(message.bytes.begin(), message.bytes.end());
  }
  /// In three parts, if queue pairs are asked for.
  registry::Account account(std::uint32_t queue_pairs) override {
    if (queue_pairs == 0) return {"a member"};
    return {"part " + std::to_string(queue_pairs), queue_pairs < 3 ? queue_pairs + 1 : 0};
  }

  std::unique_ptr<registry::Registry> registry;
  std::vector<std::vector<std::uint8_t>> messages;

 private:
  std::vector<std::uint8_t> memory_;
};

/// False: no descriptor became readable within `patience`.
template <typename Peer>
bool turn_all(const std::vector<Peer*>& peers, std::chrono::milliseconds patience) {
  std::vector<pollfd> fds;
  for (const Peer* p : peers) {
    for (const int fd : p->descriptors()) fds.push_back({fd, POLLIN, 0});
  }
  const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(patience.count()));
  for (Peer* p : peers) p->turn();
  return ready > 0;
}

/// Drives the peers until `done`, at most 5 s.
template <typename Peer>
bool run_until(const std::vector<Peer*>& peers, const std::function<bool()>& done) {
  const auto deadline = monotonic_now() + 5s;
  while (!done()) {
    if (monotonic_now() > deadline) return false;
    turn_all(peers, 20ms);
  }
  return true;
}

}  // namespace verbena::test
