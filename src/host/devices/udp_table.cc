#include "host/devices/udp_table.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace verbena::host {
namespace {

constexpr IpAddress kAnyV4 = IpAddress::v4({0, 0, 0, 0});
constexpr IpAddress kAnyV6{};

template <typename T>
std::optional<T> number(std::string_view text, int base) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Words of four bytes, each printed as a number of this machine.
std::optional<IpAddress> address_of(std::string_view hex) {
  constexpr std::size_t kWord = 8;
  if (hex.size() != kWord && hex.size() != 4 * kWord) return std::nullopt;
  IpAddress::Bytes bytes = hex.size() == kWord ? kAnyV4.bytes() : kAnyV6.bytes();
  auto* at = bytes.data() + bytes.size() - hex.size() / 2;
  for (; !hex.empty(); hex.remove_prefix(kWord), at += sizeof(std::uint32_t)) {
    const auto word = number<std::uint32_t>(hex.substr(0, kWord), 16);
    if (!word) return std::nullopt;
    std::memcpy(at, &*word, sizeof *word);
  }
  return IpAddress{bytes};
}

/// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …
std::optional<UdpSocketEntry> entry_of(const std::string& line) {
  std::istringstream words{line};
  std::string place, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
  words >> place >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
      inode;
  const auto colon = local.find(':');
  if (!words || colon == std::string::npos) return std::nullopt;
  const std::string_view text{local};
  const auto address = address_of(text.substr(0, colon));
  const auto port = number<std::uint16_t>(text.substr(colon + 1), 16);
  const auto owner = number<uid_t>(uid, 10);
  const auto node = number<ino_t>(inode, 10);
  if (!address || !port || !owner || !node) return std::nullopt;
  return UdpSocketEntry{*address, *port, *owner, *node};
}

}  // namespace

std::vector<UdpSocketEntry> parse_udp_table(std::string_view text) {
  std::vector<UdpSocketEntry> out;
  std::istringstream lines{std::string{text}};
  for (std::string line; std::getline(lines, line);) {
    if (auto entry = entry_of(line)) out.push_back(*entry);
  }
  return out;
}

std::vector<UdpSocketEntry> udp_sockets_at(std::uint16_t port) {
  std::vector<UdpSocketEntry> out;
  for (const char* path : {"/proc/self/net/udp", "/proc/self/net/udp6"}) {
    std::ifstream file{path};
    const std::string text{std::istreambuf_iterator<char>{file}, {}};
    for (const UdpSocketEntry& e : parse_udp_table(text)) {
      if (e.port == port) out.push_back(e);
    }
  }
  return out;
}

bool overlaps(const UdpSocketEntry& socket, const IpAddress& local) {
  return socket.address == local || socket.address == kAnyV6 ||
         (socket.address == kAnyV4 && local.is_v4());
}

}  // namespace verbena::host
