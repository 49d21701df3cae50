#pragma once

// What the processes of a registry say to each other over seqpacket sockets: a header, and bytes or
// text behind it. Both ends are on one machine: host byte order.

#include <cstdint>
#include <type_traits>

namespace verbena::registry {

enum class ControlKind : std::uint8_t {
  hello = 1,  // "I hold `slot`": so that a hang-up tells whose it was
  table_request = 2,
  table = 3,    // the memfd comes with it (descriptor_passing.h)
  message = 4,  // of `wire`: bytes follow that only it understands
  account_request = 5,
  account = 6,  // what the process tells of itself follows, as text
};

struct ControlHeader {
  static constexpr std::uint32_t kMagic = 0x7662'6303;  // "vbc", version 3

  std::uint32_t magic = kMagic;
  ControlKind kind{};
  std::uint8_t wire = 0;  // message
  std::uint8_t reserved[2]{};
  std::uint32_t slot = 0;  // hello
  // account_request: lists queue pairs from this number on; account: where the next part begins.
  // 0: none. Earlier versions send 0 and ignore it.
  std::uint32_t queue_pairs = 0;
  std::uint64_t tenancy = 0;  // hello: SharedTable::tenancy() of the slot
};
static_assert(std::is_trivially_copyable_v<ControlHeader>);
static_assert(sizeof(ControlHeader) == 24);

}  // namespace verbena::registry
