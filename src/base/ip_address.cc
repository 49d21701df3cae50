#include "base/ip_address.h"

#include <arpa/inet.h>

namespace verbena {

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  if (text.find('\0') != text.npos) return std::nullopt;  // inet_pton would stop there
  const std::string terminated{text};
  std::array<std::uint8_t, 4> four{};
  if (inet_pton(AF_INET, terminated.c_str(), four.data()) == 1) return v4(four);
  Bytes sixteen{};
  if (inet_pton(AF_INET6, terminated.c_str(), sixteen.data()) == 1) return IpAddress{sixteen};
  return std::nullopt;
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> out{};
  const bool four = is_v4();
  inet_ntop(four ? AF_INET : AF_INET6, bytes_.data() + (four ? 12 : 0), out.data(), out.size());
  return out.data();
}

}  // namespace verbena
