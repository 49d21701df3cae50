#include "registry/shared_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "system/kernel_calls.h"
#include "system/random.h"
#include "system/system_error.h"

namespace verbena::registry {

struct SharedTable::Layout {
  static constexpr std::uint64_t kMagic = 0x7665'7262'656e'6106;  // "verbena", version 6

  using Word = std::atomic<std::uint64_t>;
  static_assert(Word::is_always_lock_free);

  Word magic;
  Word nonce;
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint32_t> round;
  /// Hash of an address, 0: free. A collision costs detours, never correctness.
  std::array<Word, kAddresses> addresses;
  /// 0: never used. With kHeldBit: a Tenancy. Else rests until that instant.
  std::array<Word, Qpn::kSlots> slots;
  /// Per slot and address, see Membership.
  std::array<std::array<Word, kAddresses>, Qpn::kSlots> members;
  std::array<Word, Qpn::kSlots> traits;
  /// Per slot, a bit for each address.
  std::array<Word, Qpn::kSlots> receives_at;
  PortMemory ports;
  ConnectionMemory connections;
};

namespace {

constexpr std::uint64_t kHeldBit = std::uint64_t{1} << 63;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr std::uint64_t kNoMember = 0;
constexpr std::uint64_t kPlaceUnknown = UINT64_MAX;

/// One word of the table: the round in the upper half, place + 1 in the lower.
struct Membership {
  std::uint32_t round = 0;
  std::uint16_t place = 0;

  [[nodiscard]] std::uint64_t word() const {
    return (std::uint64_t{round} << 32) | (std::uint64_t{place} + 1);
  }
  static std::optional<Membership> of(std::uint64_t word) {
    const auto low = static_cast<std::uint32_t>(word);
    if (low == 0 || low > Qpn::kSlots) return std::nullopt;
    return Membership{static_cast<std::uint32_t>(word >> 32), static_cast<std::uint16_t>(low - 1)};
  }
};

std::uint64_t hash_of(const LocalAddress& local) {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;  // FNV-1a
  const auto mix = [&hash](std::uint8_t byte) { hash = (hash ^ byte) * 0x100'0000'01b3; };
  for (const auto byte : local.address.bytes()) mix(byte);
  if (local.address.is_link_local()) {
    for (unsigned i = 0; i < 4; ++i) mix(static_cast<std::uint8_t>(local.interface >> (8 * i)));
  }
  return hash == 0 ? 1 : hash;
}

std::uint64_t nanoseconds(Instant t) {
  return static_cast<std::uint64_t>(t.time_since_epoch().count());
}

}  // namespace

void SharedTable::Unmap::operator()(Layout* layout) const { ::munmap(layout, sizeof(Layout)); }

SharedTable::SharedTable(Fd memfd, std::unique_ptr<Layout, Unmap> layout)
    : memfd_{std::move(memfd)}, layout_{std::move(layout)} {}

Result<SharedTable> SharedTable::found() {
  Fd memfd{::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!memfd) return system_error(errno, "memfd_create for the registry's table");
  if (::ftruncate(memfd.get(), sizeof(Layout)) != 0 ||
      kernel::fcntl(memfd.get(), F_ADD_SEALS, kSeals) != 0) {
    return system_error(
        errno, "sizing the registry's table, bytes wanted: " + std::to_string(sizeof(Layout)));
  }
  void* memory =
      ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0);
  if (memory == MAP_FAILED) return system_error(errno, "mmap of the registry's table");
  // Zeroes are valid atomics; the file is full of them.
  std::unique_ptr<Layout, Unmap> layout{static_cast<Layout*>(memory)};
  layout->nonce = random_number<std::uint64_t>();
  layout->magic = Layout::kMagic;
  return SharedTable{std::move(memfd), std::move(layout)};
}

Result<SharedTable> SharedTable::map(Fd memfd) {
  struct stat status {};
  const int seals = kernel::fcntl(memfd.get(), F_GET_SEALS);
  // Without the seals the other process could shrink the file under us: SIGBUS.
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(memfd.get(), &status) != 0 ||
      status.st_size != static_cast<off_t>(sizeof(Layout))) {
    return Error{EPROTO,
                 "registry: the table of a peer has another version; do processes of "
                 "different Verbena versions run here?"};
  }
  void* memory =
      ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0);
  if (memory == MAP_FAILED) return system_error(errno, "mmap of the registry's table");
  std::unique_ptr<Layout, Unmap> layout{static_cast<Layout*>(memory)};
  if (layout->magic != Layout::kMagic) {
    return Error{EPROTO, "registry: the table of a peer has an unknown version"};
  }
  return SharedTable{std::move(memfd), std::move(layout)};
}

void SharedTable::close() {
  layout_.reset();
  memfd_.reset();
}

std::uint64_t SharedTable::nonce() const { return layout_->nonce; }
std::uint32_t SharedTable::generation() const { return layout_->generation; }
std::uint32_t SharedTable::next_round() { return ++layout_->round; }
void SharedTable::listeners_changed() { ++layout_->generation; }

PortMemory& SharedTable::ports() { return layout_->ports; }
const PortMemory& SharedTable::ports() const { return layout_->ports; }
ConnectionMemory& SharedTable::connections() { return layout_->connections; }

SharedTable::SlotState SharedTable::state(std::uint32_t slot, Instant now) const {
  const std::uint64_t word = layout_->slots[slot];
  if ((word & kHeldBit) != 0) return SlotState::held;
  // An instant further away than a rest is nobody's: a damaged word must not lock the slot.
  const bool resting = word > nanoseconds(now) && word <= nanoseconds(now + kRest);
  return resting ? SlotState::resting : SlotState::free;
}

bool SharedTable::held(std::uint32_t slot) const { return tenancy(slot) != Tenancy::none; }

Tenancy SharedTable::tenancy(std::uint32_t slot) const {
  const std::uint64_t word = layout_->slots[slot];
  const bool held = slot != 0 && (word & kHeldBit) != 0;  // 0 is nobody's, whatever stands there
  return held ? Tenancy{word} : Tenancy::none;
}

Instant SharedTable::rests_until(std::uint32_t slot) const {
  return Instant{Duration{static_cast<Duration::rep>(layout_->slots[slot].load())}};
}

void SharedTable::hold(std::uint32_t slot) {
  // First: they would be the new process' otherwise.
  layout_->ports.wipe(slot);
  layout_->connections.disown(slot);
  layout_->traits[slot] = 0;
  layout_->receives_at[slot] = 0;
  hold_anew(slot);
}

void SharedTable::hold_anew(std::uint32_t slot) {
  layout_->slots[slot] = random_number<std::uint64_t>() | kHeldBit;
}

bool SharedTable::release(std::uint32_t slot, Instant now) {
  return release(slot, tenancy(slot), now);
}

bool SharedTable::release(std::uint32_t slot, Tenancy tenancy, Instant now) {
  auto expected = static_cast<std::uint64_t>(tenancy);
  if (tenancy == Tenancy::none ||
      !layout_->slots[slot].compare_exchange_strong(expected, nanoseconds(now + kRest))) {
    return false;
  }
  for (auto& member : layout_->members[slot]) member = kNoMember;
  ++layout_->generation;
  return true;
}

void SharedTable::set_traits(std::uint32_t slot, std::uint64_t word) {
  layout_->traits[slot] = word;
}

std::uint64_t SharedTable::traits(std::uint32_t slot) const {
  return layout_->traits[slot].load(std::memory_order_relaxed);
}

void SharedTable::receive_at(Column column, std::uint32_t slot) {
  static_assert(kAddresses <= 64);
  layout_->receives_at[slot] |= std::uint64_t{1} << column;
}

bool SharedTable::receives_at(Column column, std::uint32_t slot) const {
  return (layout_->receives_at[slot].load(std::memory_order_relaxed) >> column & 1) != 0;
}

std::optional<SharedTable::Column> SharedTable::find_column(const LocalAddress& local) const {
  const std::uint64_t hash = hash_of(local);
  for (Column column = 0; column < kAddresses; ++column) {
    const std::uint64_t found = layout_->addresses[column].load(std::memory_order_relaxed);
    if (found == hash) return column;
    if (found == 0) return std::nullopt;  // they are taken in order
  }
  return std::nullopt;
}

std::optional<SharedTable::Column> SharedTable::column_of(const LocalAddress& local) {
  const std::uint64_t hash = hash_of(local);
  for (Column column = 0; column < kAddresses; ++column) {
    std::uint64_t found = 0;
    if (layout_->addresses[column].compare_exchange_strong(found, hash) || found == hash) {
      return column;
    }
  }
  return std::nullopt;
}

void SharedTable::join(Column column, std::uint32_t slot) {
  layout_->members[slot][column] = kPlaceUnknown;
}

bool SharedTable::learn(Column column, std::uint32_t slot, std::uint16_t place,
                        std::uint32_t round) {
  if (place >= Qpn::kSlots) return false;
  auto& member = layout_->members[slot][column];
  const auto known = Membership::of(member);
  if (known) {
    const auto newer = static_cast<std::int32_t>(round - known->round);
    // Within a round the smallest place is the true one: a question past the end reaches anybody.
    if (newer < 0 || (newer == 0 && place >= known->place)) return false;
  }
  member = Membership{round, place}.word();
  if (known && known->place == place) return false;
  ++layout_->generation;
  return true;
}

void SharedTable::leave(Column column, std::uint32_t slot) {
  layout_->members[slot][column] = kNoMember;
  ++layout_->generation;
}

std::vector<GroupMember> SharedTable::members(Column column) const {
  std::vector<GroupMember> members;
  for (std::uint32_t slot = 1; slot < Qpn::kSlots; ++slot) {
    if (const auto member = Membership::of(layout_->members[slot][column])) {
      members.push_back({slot, member->place});
    }
  }
  return members;
}

std::size_t SharedTable::place_bound(Column column) const {
  std::size_t members = 0;
  std::size_t beyond_known = 0;
  for (std::uint32_t slot = 1; slot < Qpn::kSlots; ++slot) {
    const std::uint64_t word = layout_->members[slot][column];
    if (word == kNoMember) continue;
    ++members;
    if (const auto known = Membership::of(word)) {
      beyond_known = std::max<std::size_t>(beyond_known, known->place + 1u);
    }
  }
  return std::max(members, beyond_known);
}

}  // namespace verbena::registry
