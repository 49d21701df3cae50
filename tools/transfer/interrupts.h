#pragma once

// Ctrl-C. During a session the peer is told first; before, and at the second time, the process ends
// at once.

namespace verbena::transfer {

void catch_interrupts();

/// While it lives, an interrupt makes interrupt_fd() readable.
class InterruptsWait {
 public:
  InterruptsWait();
  InterruptsWait(const InterruptsWait&) = delete;
  InterruptsWait& operator=(const InterruptsWait&) = delete;
  ~InterruptsWait();
};

[[nodiscard]] bool interrupted();
[[nodiscard]] int interrupt_fd();
inline constexpr int kExitInterrupted = 130;

}  // namespace verbena::transfer
