#pragma once

// A copy loop in user mode that may touch memory which is gone. Written in assembly, because the
// fault handler (fault_handler.h) must know each instruction that may fault, and because the order
// of the stores matters: ascending, the last byte by a store of its own, after all others.
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

/// False: a page of `from` or `to` is gone or protected. Bytes before it may have been copied.
/// The ranges don't overlap.
[[nodiscard]] bool guarded_copy(void* to, const void* from, std::size_t bytes);

/// The same with stores around the cache where `to` begins a cache line, for large copies that
/// another core reads. Those stores have no order of their own: a store fence publishes them.
[[nodiscard]] bool guarded_copy_streamed(void* to, const void* from, std::size_t bytes);
/// Another core gets bytes faster when they don't lie in this one's cache. So it is on processors
/// of AMD, and not on Intel's: docs/decisions/018-streamed-stores.md.
[[nodiscard]] bool streaming_pays();

/// Where to go on when the instruction at `pc` has faulted. 0: it is none of these copies.
[[nodiscard]] std::uintptr_t landing_of_guarded_copy(std::uintptr_t pc);

}  // namespace verbena::memory
