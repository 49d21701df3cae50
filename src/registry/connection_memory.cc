#include "registry/connection_memory.h"

#include <algorithm>

#include "base/bytes.h"

namespace verbena::registry {
namespace {

// Head, from the lowest bit: slot, state, number of changes.
constexpr unsigned kRowSlotBits = 10;
constexpr unsigned kRowStateBits = 2;
constexpr unsigned kRowChangeShift = kRowSlotBits + kRowStateBits;
static_assert(1u << kRowSlotBits == Qpn::kSlots);
static_assert(static_cast<unsigned>(RowState::adopted) < 1u << kRowStateBits);

// The words of a row.
constexpr std::size_t kWordIds = 0, kWordLocal = 1, kWordRemote = 3, kWordPeer = 5,
                      kWordInterval = 6;
// Of kWordPeer, from the lowest bit: queue pair, retries, queue pair of the connection manager.
constexpr unsigned kRetriesShift = 24;
constexpr unsigned kGsiShift = 32;

std::uint64_t next_head(std::uint64_t head, std::uint32_t slot, RowState state) {
  return RowHead{slot, state, RowHead::of(head).change + 1}.word();
}

std::size_t rows_of(std::uint64_t used) {
  return std::min<std::size_t>(static_cast<std::uint32_t>(used), ConnectionMemory::kRows);
}

std::uint64_t next_used(std::uint64_t used, std::size_t rows) {
  return (((used >> 32) + 1) << 32) | rows;
}

void put(std::uint64_t (&words)[7], std::size_t at, const IpAddress& address) {
  words[at] = load_be64(&address.bytes()[0]);
  words[at + 1] = load_be64(&address.bytes()[8]);
}

IpAddress address_of(const std::uint64_t (&words)[7], std::size_t at) {
  IpAddress::Bytes bytes{};
  store_be64(&bytes[0], words[at]);
  store_be64(&bytes[8], words[at + 1]);
  return IpAddress{bytes};
}

bool may_be(const ConnectionRecord& r) {
  return r.local_id != 0 && r.remote_id != 0 && r.local.is_v4() == r.remote.is_v4() &&
         r.local != IpAddress{} && r.remote != IpAddress{} && !r.local.is_multicast() &&
         !r.remote.is_multicast() && r.interval > Duration{};
}

}  // namespace

std::uint64_t RowHead::word() const {
  return slot | (static_cast<std::uint64_t>(state) << kRowSlotBits) | (change << kRowChangeShift);
}

RowHead RowHead::of(std::uint64_t word) {
  return {.slot = static_cast<std::uint32_t>(word & (Qpn::kSlots - 1)),
          .state = static_cast<RowState>((word >> kRowSlotBits) & ((1u << kRowStateBits) - 1)),
          .change = word >> kRowChangeShift};
}

std::size_t ConnectionMemory::bound() const { return rows_of(used); }

void ConnectionMemory::raise_bound(std::size_t at_least) {
  std::uint64_t seen = used;
  while (!used.compare_exchange_weak(seen, next_used(seen, std::max(rows_of(seen), at_least)))) {
  }
}

void ConnectionMemory::lower_bound() {
  std::uint64_t seen = used;
  std::size_t end = rows_of(seen);
  while (end > 0 && RowHead::of(rows[end - 1].head).state == RowState::free) --end;
  // If it fails, the next row that is removed lowers it.
  if (end < rows_of(seen)) used.compare_exchange_strong(seen, next_used(seen, end));
}

std::optional<RowClaim> ConnectionMemory::add(std::uint32_t slot, const ConnectionRecord& record) {
  for (std::size_t i = 0; i < kRows; ++i) {
    std::uint64_t head = rows[i].head;
    if (RowHead::of(head).state != RowState::free) continue;
    const std::uint64_t written = next_head(head, slot, RowState::written);
    if (!rows[i].head.compare_exchange_strong(head, written)) continue;
    raise_bound(i + 1);
    std::uint64_t words[7]{};
    words[kWordIds] = ids_of(record.local_id, record.remote_id);
    put(words, kWordLocal, record.local);
    put(words, kWordRemote, record.remote);
    words[kWordPeer] = record.remote_qpn.value() |
                       (std::uint64_t{record.retries} << kRetriesShift) |
                       (std::uint64_t{record.remote_gsi.value()} << kGsiShift);
    words[kWordInterval] = static_cast<std::uint64_t>(record.interval.count());
    std::ranges::copy(words, rows[i].words.begin());
    std::uint64_t expected = written;
    const std::uint64_t complete = next_head(written, slot, RowState::complete);
    if (!rows[i].head.compare_exchange_strong(expected, complete)) continue;
    return RowClaim{i, complete};
  }
  return std::nullopt;
}

std::optional<RowClaim> ConnectionMemory::look(std::size_t index) const {
  const std::uint64_t head = rows[index].head;
  if (RowHead::of(head).state == RowState::free) return std::nullopt;
  return RowClaim{index, head};
}

std::optional<ConnectionRecord> ConnectionMemory::read(const RowClaim& seen) const {
  if (seen.state() != RowState::complete && seen.state() != RowState::adopted) return std::nullopt;
  std::uint64_t words[7]{};
  std::ranges::copy(rows[seen.index].words, std::begin(words));
  if (!unchanged(seen)) return std::nullopt;
  const ConnectionRecord record{
      .local_id = static_cast<std::uint32_t>(words[kWordIds] >> 32),
      .remote_id = static_cast<std::uint32_t>(words[kWordIds]),
      .local = address_of(words, kWordLocal),
      .remote = address_of(words, kWordRemote),
      .remote_gsi = Qpn{static_cast<std::uint32_t>(words[kWordPeer] >> kGsiShift)},
      .remote_qpn = Qpn{static_cast<std::uint32_t>(words[kWordPeer])},
      .interval = Duration{static_cast<Duration::rep>(words[kWordInterval])},
      .retries = static_cast<std::uint8_t>(words[kWordPeer] >> kRetriesShift)};
  return may_be(record) ? std::optional{record} : std::nullopt;
}

std::optional<RowClaim> ConnectionMemory::adopt(const RowClaim& seen, std::uint32_t slot) {
  std::uint64_t head = seen.head;
  const std::uint64_t adopted = next_head(head, slot, RowState::adopted);
  if (!rows[seen.index].head.compare_exchange_strong(head, adopted)) return std::nullopt;
  return RowClaim{seen.index, adopted};
}

bool ConnectionMemory::remove(const RowClaim& seen) {
  std::uint64_t head = seen.head;
  if (!rows[seen.index].head.compare_exchange_strong(head, next_head(head, 0, RowState::free))) {
    return false;
  }
  lower_bound();
  return true;
}

void ConnectionMemory::disown(std::uint32_t slot) {
  for (std::size_t i = 0; i < bound(); ++i) {
    std::uint64_t word = rows[i].head;
    const auto head = RowHead::of(word);
    if (head.slot != slot || head.state == RowState::free) continue;
    // If it fails, another process has taken the row over, which is as well.
    rows[i].head.compare_exchange_strong(word, next_head(word, 0, head.state));
  }
}

}  // namespace verbena::registry
