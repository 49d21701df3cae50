#pragma once

// The rdma_cm connections of all processes of a registry, as they lie in its shared memory: when a
// process is killed, another one disconnects them for it. Flat, pointer-free, lock-free. The head
// of a row says who speaks for it and how far it has come:
//
//   free ─► written ─► complete ─► adopted ─┐
//     ▲        │          │         ▲   │   │  by another process, because the one that the head
//     └────────┴──────────┴─────────┼───┘   │  names is dead
//                                   └───────┘
//
// Whoever changes a head has compared it with what he saw: of several processes one gets a row.
// Any value that lies here is safe to read, and is trusted as little as a packet.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "base/time.h"

namespace verbena::registry {

/// One end of a connection: what a DREQ needs that ends it.
struct ConnectionRecord {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
  IpAddress local{};
  IpAddress remote{};
  Qpn remote_gsi{};  // where the peer's connection manager is
  Qpn remote_qpn{};
  Duration interval{};  // between retries
  std::uint8_t retries = 0;

  friend constexpr bool operator==(const ConnectionRecord&, const ConnectionRecord&) = default;
};

enum class RowState : std::uint8_t {
  free,
  written,  // its owner writes it; means nothing yet
  complete,
  adopted,
};

/// The first word of a row.
struct RowHead {
  std::uint32_t slot = 0;  // who speaks for the connection; 0: nobody
  RowState state{};
  std::uint64_t change = 0;  // counts the changes, so that no head comes back

  [[nodiscard]] std::uint64_t word() const;
  [[nodiscard]] static RowHead of(std::uint64_t word);
};

/// A row as somebody saw it. Good for as long as nobody changes its head.
struct RowClaim {
  std::size_t index = 0;
  std::uint64_t head = 0;

  [[nodiscard]] std::uint32_t slot() const { return RowHead::of(head).slot; }
  [[nodiscard]] RowState state() const { return RowHead::of(head).state; }
};

struct ConnectionMemory {
  static constexpr std::size_t kRows = 16'384;

  using Word = std::atomic<std::uint64_t>;
  struct Row {
    Word head;
    std::array<Word, 7> words;
  };

  /// In the lower half: no row from here on is in use. In the upper half, the number of changes:
  /// whoever claims a row changes it, so that nobody who saw the row free can lower it any more.
  Word used;
  std::array<Row, kRows> rows;

  /// How many rows are worth a look.
  [[nodiscard]] std::size_t bound() const;

  /// nullopt: no row is free.
  [[nodiscard]] std::optional<RowClaim> add(std::uint32_t slot, const ConnectionRecord& record);
  /// nullopt: it is free.
  [[nodiscard]] std::optional<RowClaim> look(std::size_t index) const;
  /// nullopt: it isn't complete, can't be a connection, or has changed since `seen`.
  [[nodiscard]] std::optional<ConnectionRecord> read(const RowClaim& seen) const;
  /// Only the ids, to skip quickly what doesn't match: the local one in the upper half.
  [[nodiscard]] std::uint64_t ids(std::size_t index) const { return rows[index].words[0]; }
  /// nullopt: it has changed since `seen`.
  [[nodiscard]] std::optional<RowClaim> adopt(const RowClaim& seen, std::uint32_t slot);
  /// False: it has changed since `seen`.
  bool remove(const RowClaim& seen);
  [[nodiscard]] bool unchanged(const RowClaim& seen) const {
    return rows[seen.index].head == seen.head;
  }
  /// What an earlier process of `slot` left is nobody's from now on.
  void disown(std::uint32_t slot);

 private:
  void raise_bound(std::size_t at_least);
  void lower_bound();
};

[[nodiscard]] constexpr std::uint64_t ids_of(std::uint32_t local_id, std::uint32_t remote_id) {
  return (std::uint64_t{local_id} << 32) | remote_id;
}

}  // namespace verbena::registry
