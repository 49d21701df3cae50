#pragma once

// Atomic operations on words that may be gone, as guarded_copy.h has it for copies. Only for
// threads for which faults_are_caught().

#include <cstdint>

namespace verbena::memory {

/// In the two registers of a result.
struct GuardedWord {
  std::uint64_t held;  // what the word held before
  std::uint64_t done;  // 0: its page is gone or can't be written, and nothing was changed
};

// Sequentially consistent. Each one writes, also an exchange that finds another value.

[[nodiscard]] GuardedWord guarded_compare_swap(std::uint64_t* word, std::uint64_t compare,
                                               std::uint64_t swap);
[[nodiscard]] GuardedWord guarded_fetch_add(std::uint64_t* word, std::uint64_t add);
/// `held` means nothing on some machines.
[[nodiscard]] GuardedWord guarded_store(std::uint64_t* word, std::uint64_t value);

/// Where to go on when the instruction at `pc` has faulted. 0: it is none of these operations.
[[nodiscard]] std::uintptr_t landing_of_guarded_word(std::uintptr_t pc);

}  // namespace verbena::memory
