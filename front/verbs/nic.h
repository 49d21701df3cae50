#pragma once

// The NIC that objects live on. A forked child gets a new one: what it inherited from its
// parent stays readable, but only to be thrown away.

#include <atomic>
#include <mutex>

#include "base/result.h"
#include "host/nic.h"

namespace verbena::front {

/// The process's NIC once something needed it, nullptr before and in a fresh child.
extern std::atomic<host::Nic*> live_nic;

/// Starts the NIC if it isn't running.
Result<host::Nic*> start_nic();

/// False for objects of the parent's.
[[nodiscard]] inline bool is_live(const host::Nic* nic) {
  return nic == live_nic.load(std::memory_order_relaxed);
}

/// Says why an object isn't live.
Error inherited(const char* object);

/// Guards the lists of devices and of each context's objects. Never held across a call to
/// the NIC; not left locked in a forked child.
[[nodiscard]] std::unique_lock<std::mutex> lock_lists();

}  // namespace verbena::front
