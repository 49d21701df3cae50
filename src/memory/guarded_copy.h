#pragma once

// A copy loop in user mode that may touch memory which is gone. Written in assembly, because the
// fault handler (fault_handler.h) must know each instruction that may fault, and because the loads
// and stores matter:
//
//   ascending         the last unit by a store of its own, after all others
//   words stay whole  8, 4 or 2 aligned bytes in the program's memory are never split between two
//                     loads or stores: programs poll counters and flags that RDMA writes or reads
//
// So the program's side of a copy is divided at multiples of 8: a first part of 1, 2 and 4 bytes,
// as needed, then words, then 4, 2 and 1 bytes. All of the last unit is seen at once, its last byte
// too. The frame's side is divided in the same places, whatever its alignment: nobody else looks
// there.
//
// Only for threads for which faults_are_caught(): elsewhere a fault is a signal in the program.

#include <cstddef>
#include <cstdint>

namespace verbena::memory {

#if defined(__x86_64__) || defined(__aarch64__)
inline constexpr bool kHasGuardedCopy = true;
#else
inline constexpr bool kHasGuardedCopy = false;
#endif

// False: a page of `from` or `to` is gone or protected. Bytes before it may have been copied.
// The ranges don't overlap.

/// Into the program's memory, whose words stay whole.
[[nodiscard]] bool guarded_scatter(void* to, const void* from, std::size_t bytes);
/// Out of the program's memory, whose words stay whole.
[[nodiscard]] bool guarded_gather(void* to, const void* from, std::size_t bytes);

/// Where to go on when the instruction at `pc` has faulted. 0: it is none of these copies.
[[nodiscard]] std::uintptr_t landing_of_guarded_copy(std::uintptr_t pc);

}  // namespace verbena::memory
