#pragma once

// The IP addressing header in front of a program's private data (IBA annex A11).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/service_id.h"
#include "cm/event.h"
#include "cm/parameters.h"
#include "cm/route.h"
#include "packet/ip_cm_header.h"

namespace verbena::cm {

/// The ends as a request names them, and the program's part of its private data.
struct Addressing {
  Endpoint local{};
  Endpoint remote{};
  PrivateData private_data{};
};

/// nullopt: the service wants an IP addressing header, and this isn't one.
[[nodiscard]] std::optional<Addressing> addressing_of(const Route& route, ServiceId service,
                                                      std::span<const std::uint8_t> private_data);

/// EINVAL: more private data than fits into `room` bytes behind the header, or addresses of two
/// families.
[[nodiscard]] Status check_request(const char* call, const IpAddress& source,
                                   const IpAddress& destination, ServiceId service,
                                   std::size_t private_size, std::size_t room);

/// Header, if the service has one, and private data; check_request() was content. `out` is all
/// zeros.
void put_request_data(const packet::IpCmHeader& header, ServiceId service,
                      std::span<const std::uint8_t> private_data, std::span<std::uint8_t> out);

}  // namespace verbena::cm
