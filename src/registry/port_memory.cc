#include "registry/port_memory.h"

#include <algorithm>

#include "base/bytes.h"

namespace verbena::registry {
namespace {

// Head, from the lowest bit: slot, state, claim.
constexpr unsigned kSlotBits = 10;
constexpr unsigned kStateBits = 3;
constexpr unsigned kClaimShift = kSlotBits + kStateBits;
static_assert(1u << kSlotBits == Qpn::kSlots);
static_assert(static_cast<unsigned>(PortState::listening) < 1u << kStateBits);

// Key, from the lowest bit: port and space as in a service id, process id, family, two flags.
constexpr unsigned kSpaceShift = 16;
constexpr unsigned kPidShift = 32;
constexpr std::uint64_t kPidMask = 0xff'ffff;
constexpr unsigned kFamilyShift = 56;
constexpr std::uint64_t kFamilyMask = 3;
constexpr std::uint64_t kWildcard = 1ull << 58;
constexpr std::uint64_t kReuse = 1ull << 59;

std::uint64_t key_of(const PortBinding& binding, std::uint32_t pid) {
  return binding.port | (std::uint64_t{static_cast<std::uint16_t>(binding.space)} << kSpaceShift) |
         ((pid & kPidMask) << kPidShift) |
         (std::uint64_t{static_cast<std::uint8_t>(binding.family)} << kFamilyShift) |
         (binding.address ? 0 : kWildcard) | (binding.reuse ? kReuse : 0);
}

Family family_of(std::uint64_t key) {
  switch ((key >> kFamilyShift) & kFamilyMask) {
    case static_cast<std::uint64_t>(Family::v4):
      return Family::v4;
    case static_cast<std::uint64_t>(Family::v6):
      return Family::v6;
    default:
      return Family::any;
  }
}

}  // namespace

std::uint64_t PortHead::word() const {
  return slot | (static_cast<std::uint64_t>(state) << kSlotBits) | (claim << kClaimShift);
}

PortHead PortHead::of(std::uint64_t word) {
  const auto state = (word >> kSlotBits) & ((1u << kStateBits) - 1);
  return {.slot = static_cast<std::uint32_t>(word & (Qpn::kSlots - 1)),
          .state = state > static_cast<std::uint64_t>(PortState::listening)
                       ? PortState::free
                       : static_cast<PortState>(state),
          .claim = word >> kClaimShift};
}

std::size_t PortMemory::bound() const { return std::min<std::size_t>(used, kEntries); }

void PortMemory::write(std::size_t index, const PortBinding& binding, std::uint32_t pid) {
  Entry& entry = entries[index];
  entry.key = key_of(binding, pid);
  const auto bytes = binding.address.value_or(IpAddress{}).bytes();
  entry.address[0] = load_be64(&bytes[0]);
  entry.address[1] = load_be64(&bytes[8]);
}

std::optional<PortEntry> PortMemory::read(std::size_t index) const {
  const Entry& entry = entries[index];
  const auto before = PortHead::of(entry.head);
  if (before.state == PortState::free || before.state == PortState::written) return std::nullopt;
  const std::uint64_t key = entry.key;
  IpAddress::Bytes bytes{};
  store_be64(&bytes[0], entry.address[0]);
  store_be64(&bytes[8], entry.address[1]);
  const auto after = PortHead::of(entry.head);
  // Claimed anew meanwhile, or back to `written`: not complete. Whoever tries the port after
  // this look will look himself.
  const bool same = after.slot == before.slot && after.claim == before.claim;
  if (!same || after.state == PortState::free || after.state == PortState::written) {
    return std::nullopt;
  }

  PortEntry found;
  found.state = after.state;
  found.slot = after.slot;
  found.pid = static_cast<std::uint32_t>((key >> kPidShift) & kPidMask);
  found.binding.space = static_cast<PortSpace>(key >> kSpaceShift & 0xffff);
  found.binding.port = static_cast<std::uint16_t>(key);
  if ((key & kWildcard) == 0) found.binding.address = IpAddress{bytes};
  found.binding.family = family_of(key);
  found.binding.reuse = (key & kReuse) != 0;
  return found;
}

void PortMemory::wipe(std::uint32_t slot) {
  for (std::size_t i = 0; i < bound(); ++i) {
    std::uint64_t word = entries[i].head;
    const auto head = PortHead::of(word);
    if (head.slot != slot || head.state == PortState::free) continue;
    // If it fails, another process has taken the entry over, which is as well.
    entries[i].head.compare_exchange_strong(word, PortHead{.claim = head.claim}.word());
  }
}

}  // namespace verbena::registry
