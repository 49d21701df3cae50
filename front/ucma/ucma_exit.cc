// Peers of a program that just ends are disconnected in exit(), as the kernel does when it closes
// the device.

#include <chrono>
#include <cstdlib>

#include "cm/connection_manager.h"
#include "front/ucma/ucma.h"
#include "host/shutdown/bounded_wait.h"

namespace verbena::front::ucma {

namespace {

/// What each lock may be waited for.
constexpr Duration kLockLimit = std::chrono::milliseconds{20};
/// What the DREPs may be waited for. One early retry of the DREQ fits in.
constexpr Duration kDrepLimit = std::chrono::milliseconds{450};

}  // namespace

void Ucma::disconnect_at_exit() {
  static const int registered = std::atexit([] { instance().disconnect_all(); });
  static_cast<void>(registered);
}

/// The ids stay: destructors of the program may still destroy them.
void Ucma::disconnect_all() {
  auto held = host::lock_within(mutex_, kLockLimit);
  if (!held || nic_ == nullptr) return;
  nic_->manage_within(kLockLimit, [&](cm::ConnectionManager& manager, Instant now) {
    for (const auto& [handle, id] : ids_) {
      if (id->connection) manager.destroy(*id->connection, now);
    }
  });
  held.unlock();  // the NIC thread needs it for retries
  wait_for_dreps();
}

/// Nobody retries a lost DREQ after the process has ended, and its peer would wait for ever.
void Ucma::wait_for_dreps() {
  bool reached = true;
  bool awaited = true;
  const auto look = [&](cm::ConnectionManager& manager, Instant) {
    awaited = manager.awaits_drep();
  };
  static_cast<void>(host::wait_within(kDrepLimit, [&] {
    reached = nic_->manage_within(kLockLimit, look);
    return !reached || !awaited;
  }));
  if (!reached) return;
  nic_->manage_within(kLockLimit,
                      [](cm::ConnectionManager& manager, Instant) { manager.resend_dreps(); });
}

}  // namespace verbena::front::ucma
