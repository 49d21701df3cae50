#pragma once

// What the processes of a registry know together: who holds which slot, who uses which address and
// at which place of its group, which ports are bound, and which connections there are. A memfd of
// fixed, sealed size, mapped by all of them. Lock-free, because a process may be killed or stopped
// at any instruction; pointer-free; and any value that lies there is safe to read: the worst is
// that a frame reaches the wrong process, which hands it over.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/local_address.h"
#include "base/numbers.h"
#include "base/result.h"
#include "base/time.h"
#include "registry/connection_memory.h"
#include "registry/port_memory.h"
#include "system/fd.h"

namespace verbena::registry {

/// A process that uses an address, and its place among those who do.
struct GroupMember {
  std::uint32_t slot = 0;
  std::uint16_t place = 0;

  friend constexpr bool operator==(const GroupMember&, const GroupMember&) = default;
};

/// Tells one holding of a slot from the next, whose process may even have the same pid.
enum class Tenancy : std::uint64_t { none = 0 };

class SharedTable {
 public:
  /// How long a slot stays unused after its process, so that late packets find nobody.
  static constexpr Duration kRest = std::chrono::seconds{30};
  static constexpr std::size_t kAddresses = 64;
  static constexpr const char* kName = "verbena-registry";

  /// Which column of the table is an address'.
  using Column = std::size_t;

  static Result<SharedTable> found();
  /// A table that another process handed us. EPROTO: not one, or of another version.
  static Result<SharedTable> map(Fd memfd);

  /// Closes and unmaps it. Only good for destruction then.
  void close();

  [[nodiscard]] int fd() const { return memfd_.get(); }
  [[nodiscard]] std::uint64_t nonce() const;
  /// Changes whenever members() or the listeners may have changed.
  [[nodiscard]] std::uint32_t generation() const;
  [[nodiscard]] std::uint32_t next_round();
  /// Somebody began or ceased to listen on a port.
  void listeners_changed();

  // Ports; PortTable knows how to use them.
  [[nodiscard]] PortMemory& ports();
  [[nodiscard]] const PortMemory& ports() const;

  [[nodiscard]] ConnectionMemory& connections();

  // Slots.
  enum class SlotState : std::uint8_t { free, held, resting };
  [[nodiscard]] SlotState state(std::uint32_t slot, Instant now) const;
  [[nodiscard]] bool held(std::uint32_t slot) const;
  /// none: nobody holds it.
  [[nodiscard]] Tenancy tenancy(std::uint32_t slot) const;
  /// Only while resting; how the longest-rested is found when no slot is free.
  [[nodiscard]] Instant rests_until(std::uint32_t slot) const;
  /// Only by the process that holds the slot's name. Forgets the ports of an earlier one, and
  /// disowns its connections.
  void hold(std::uint32_t slot);
  /// As if another process held it now: what was concluded about the holder is void.
  void hold_anew(std::uint32_t slot);
  /// The process of `slot` has ended. False: it was known already.
  bool release(std::uint32_t slot, Instant now);
  /// The same, unless another process holds the slot now.
  bool release(std::uint32_t slot, Tenancy tenancy, Instant now);

  // What the process of a slot says of itself; nothing, until it does.
  /// For the wires of other processes, which know what the word means.
  void set_traits(std::uint32_t slot, std::uint64_t word);
  [[nodiscard]] std::uint64_t traits(std::uint32_t slot) const;
  /// It receives at this address, by whatever wire.
  void receive_at(Column column, std::uint32_t slot);
  [[nodiscard]] bool receives_at(Column column, std::uint32_t slot) const;

  // Members of each address' group. Their places are the kernel's to give: a wire finds its own
  // place out, and looks again in rounds.
  /// nullopt: more addresses than the table has room for.
  [[nodiscard]] std::optional<Column> column_of(const LocalAddress& local);
  /// nullopt: no process has used the address.
  [[nodiscard]] std::optional<Column> find_column(const LocalAddress& local) const;
  /// `slot` uses the address, at a place that nobody knows yet.
  void join(Column column, std::uint32_t slot);
  /// What was found out in `round`. True: the place is news.
  bool learn(Column column, std::uint32_t slot, std::uint16_t place, std::uint32_t round);
  void leave(Column column, std::uint32_t slot);
  /// Those whose places are known, in the order of their slots.
  [[nodiscard]] std::vector<GroupMember> members(Column column) const;
  /// A place that no member is beyond, as far as the table knows.
  [[nodiscard]] std::size_t place_bound(Column column) const;

 private:
  struct Layout;
  struct Unmap {
    void operator()(Layout* layout) const;
  };

  SharedTable(Fd memfd, std::unique_ptr<Layout, Unmap> layout);

  Fd memfd_;
  std::unique_ptr<Layout, Unmap> layout_;
};

}  // namespace verbena::registry
