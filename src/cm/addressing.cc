#include "cm/addressing.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "cm/core.h"

namespace verbena::cm {
namespace {

std::size_t header_size(ServiceId service) {
  return service.has_ip_header() ? packet::IpCmHeader::kSize : 0;
}

}  // namespace

std::optional<Addressing> addressing_of(const Route& route, ServiceId service,
                                        std::span<const std::uint8_t> private_data) {
  const auto rest = private_data.subspan(header_size(service));
  const PrivateData program{rest.begin(), rest.end()};
  if (!service.has_ip_header()) return Addressing{{route.local, 0}, {route.remote, 0}, program};
  const auto ip = packet::decode_ip_cm_header(private_data);
  if (!ip) return std::nullopt;
  return Addressing{{ip->destination, service.port()}, {ip->source, ip->source_port}, program};
}

Status check_request(const char* call, const IpAddress& source, const IpAddress& destination,
                     ServiceId service, std::size_t private_size, std::size_t room) {
  if (source.is_v4() != destination.is_v4()) {
    return Error{EINVAL, std::string{call} + ": " + source.text() + " can't reach " +
                             destination.text() + ": one is IPv4, the other IPv6"};
  }
  return check_size(call, "private data", private_size, room - header_size(service));
}

void put_request_data(const packet::IpCmHeader& header, ServiceId service,
                      std::span<const std::uint8_t> private_data, std::span<std::uint8_t> out) {
  if (service.has_ip_header()) packet::encode_ip_cm_header(header, out);
  std::ranges::copy(private_data, out.subspan(header_size(service)).begin());
}

}  // namespace verbena::cm
