#pragma once

// The bindings of all processes of a registry, as they lie in its shared memory: flat,
// pointer-free, lock-free. An entry's head says who has it and how far it has come:
//
//   free ─► written ─► trying ─► bound ─► preparing ─► listening
//             ▲          │         ▲          │
//             └──────────┘         └──────────┘     something is in the way
//
// Only the owner moves an entry on. Once its slot isn't held any more, whatever state it died
// in, the entry is free to all. Any value that lies here is safe to read.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/numbers.h"
#include "registry/port_binding.h"

namespace verbena::registry {

enum class PortState : std::uint8_t {
  free,
  written,  // its owner may write key and address; nobody else looks at them
  trying,   // to become bound: whoever sees it has to wait or to give way
  bound,
  preparing,  // bound, and about to listen
  listening,
};

/// The first word of an entry.
struct PortHead {
  std::uint32_t slot = 0;
  PortState state{};
  std::uint64_t claim = 0;  // counts the owners, so that no head comes back

  [[nodiscard]] std::uint64_t word() const;
  /// A state that is none reads as free.
  [[nodiscard]] static PortHead of(std::uint64_t word);
};

/// What a reader sees of an entry that is not free.
struct PortEntry {
  PortBinding binding;
  PortState state{};
  std::uint32_t slot = 0;
  std::uint32_t pid = 0;  // as its own namespace numbers it
};

struct PortMemory {
  static constexpr std::size_t kEntries = 16'384;

  using Word = std::atomic<std::uint64_t>;
  struct Entry {
    Word head;
    Word key;
    std::array<Word, 2> address;
  };

  std::atomic<std::uint32_t> used;  // no entry from here on was ever claimed
  std::array<Entry, kEntries> entries;

  /// How many entries are worth a look.
  [[nodiscard]] std::size_t bound() const;
  /// Space and port as in a service id, whatever the state: to skip quickly what won't match.
  [[nodiscard]] std::uint32_t service(std::size_t index) const {
    return static_cast<std::uint32_t>(entries[index].key);
  }
  /// By the entry's owner. After `written`, only what doesn't change what it overlaps.
  void write(std::size_t index, const PortBinding& binding, std::uint32_t pid);
  /// nullopt: free, or not complete.
  [[nodiscard]] std::optional<PortEntry> read(std::size_t index) const;
  /// Frees what an earlier process left in `slot`.
  void wipe(std::uint32_t slot);
};

}  // namespace verbena::registry
