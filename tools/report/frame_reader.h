#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tools/report/observation.h"

namespace verbena::report {

/// As pcap numbers them.
enum class LinkType : std::uint32_t {
  null = 0,
  ethernet = 1,
  raw_ip = 101,
  loop = 108,
  linux_cooked = 113,
  raw_ipv4 = 228,
  raw_ipv6 = 229,
  linux_cooked_2 = 276,
};

/// A RoCEv2 packet of a captured frame: addresses, headers, payload size. The caller fills in who
/// saw it, and when; its texts are kept in `texts`. nullopt: it is none, or too little of it was
/// captured.
[[nodiscard]] std::optional<Observation> read_frame(LinkType link,
                                                    std::span<const std::uint8_t> frame,
                                                    Observations& texts);

/// Whether nothing in a frame that was cut short says that it is no RoCEv2 packet.
[[nodiscard]] bool may_be_roce(LinkType link, std::span<const std::uint8_t> beginning);

}  // namespace verbena::report
