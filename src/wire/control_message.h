#pragma once

// What the processes of a registry say to each other over seqpacket sockets: a header, and
// frames or text behind it. Both ends are on one machine: host byte order.

#include <cstdint>
#include <span>
#include <type_traits>

#include "base/ip_address.h"
#include "wire/train.h"

namespace verbena::wire {

enum class ControlKind : std::uint8_t {
  hello = 1,  // "I hold `slot`": so that a hang-up tells whose it was
  table_request = 2,
  table = 3,  // the memfd comes with it (SCM_RIGHTS)
  frames = 4,
  account_request = 5,
  account = 6,  // what the process tells of itself follows, as text
};

struct ControlHeader {
  static constexpr std::uint32_t kMagic = 0x7662'6301;  // "vbc", version 1

  std::uint32_t magic = kMagic;
  ControlKind kind{};
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t reserved = 0;
  std::uint32_t slot = 0;     // hello
  std::uint32_t segment = 0;  // frames: bytes of each
  std::uint16_t source_port = 0;
  std::uint16_t reserved2 = 0;
  IpAddress::Bytes source{};
  IpAddress::Bytes destination{};
};
static_assert(std::is_trivially_copyable_v<ControlHeader>);
static_assert(sizeof(ControlHeader) == 52);

inline ControlHeader header_of(const Train& t) {
  ControlHeader header{.kind = ControlKind::frames,
                       .traffic_class = t.whole.traffic_class,
                       .hop_limit = t.whole.hop_limit,
                       .segment = static_cast<std::uint32_t>(t.segment),
                       .source_port = t.whole.source_port};
  header.source = t.whole.source.bytes();
  header.destination = t.whole.destination.bytes();
  return header;
}

inline Train train_of(const ControlHeader& header, std::span<const std::uint8_t> bytes) {
  return {.whole = {.source = IpAddress{header.source},
                    .destination = IpAddress{header.destination},
                    .source_port = header.source_port,
                    .traffic_class = header.traffic_class,
                    .hop_limit = header.hop_limit,
                    .bytes = bytes},
          .segment = header.segment == 0 ? bytes.size() : header.segment};
}

}  // namespace verbena::wire
