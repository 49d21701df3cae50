#pragma once

// The one place where locks are taken for fork(). A forked child must not find a lock held by a
// thread that it doesn't have, so the forking thread takes all of them first, in the lock order.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbena::host {

/// The locks that are held across fork(), outermost first: who holds one may wait only for those
/// below it.
enum class ForkRank : std::uint8_t {
  rdma_cm,      // front/ucma: channels, ids
  verbs_lists,  // front/verbs: devices, objects of a context
  nic,          // the start of the NIC, then its engine
  gid_tables,   // nobody who holds it waits for another lock
};
inline constexpr std::size_t kForkRanks = 4;

/// What the owner of a lock does at fork(). The object lives as long as the process.
struct ForkHandler {
  void (*prepare)();  // in the parent, before: locks
  void (*parent)();   // in the parent, after: unlocks
  void (*child)();    // in the child: abandons what is the parent's, unlocks
};

/// Handlers by rank. All functions but add() are for the forking thread, in its parent or child.
class ForkHandlers {
 public:
  /// The first handler of a rank stays. May be called with any lock held, and while others fork.
  void add(ForkRank rank, const ForkHandler& handler);

  /// Outermost first. Returns what it has prepared: a handler that is added meanwhile has no part
  /// in this fork().
  using Prepared = std::array<const ForkHandler*, kForkRanks>;
  [[nodiscard]] Prepared prepare() const;
  /// Innermost first.
  static void parent(const Prepared& prepared);
  static void child(const Prepared& prepared);

 private:
  std::array<std::atomic<const ForkHandler*>, kForkRanks> handlers_{};
};

/// From now on, every fork() of the process calls `handler`.
void at_fork(ForkRank rank, const ForkHandler& handler);

}  // namespace verbena::host
