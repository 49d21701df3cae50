#include "registry/port_range.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "system/fd.h"
#include "system/kernel_calls.h"

namespace verbena::registry {
namespace {

/// Takes a number off the front of `text`, and blanks before it.
std::optional<std::uint16_t> take_port(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  std::uint16_t port = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
  if (parsed.ec != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return port;
}

}  // namespace

std::optional<PortRange> parse_port_range(std::string_view text) {
  const auto first = take_port(text);
  const auto last = take_port(text);
  if (!first || !last || *first == 0 || *first > *last) return std::nullopt;
  return PortRange{*first, *last};
}

PortRange ephemeral_ports() {
  const Fd fd{::open("/proc/sys/net/ipv4/ip_local_port_range", O_RDONLY | O_CLOEXEC)};
  std::array<char, 64> text{};
  const auto got = fd ? kernel::read(fd.get(), text.data(), text.size()) : -1;
  if (got <= 0) return {};
  return parse_port_range({text.data(), static_cast<std::size_t>(got)}).value_or(PortRange{});
}

}  // namespace verbena::registry
