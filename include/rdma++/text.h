// How messages are put together: std::format is not in g++ 12.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>

namespace rdma {

/// concat("qp ", hex(17)) is "qp 0x11".
template <class... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

[[nodiscard]] inline std::string hex(std::uint64_t value) {
  std::ostringstream out;
  out << "0x" << std::hex << value;
  return std::move(out).str();
}

/// "Invalid argument (22)"
[[nodiscard]] inline std::string errno_text(int code) {
  char room[128] = "";
  // The GNU form, which g++ always selects: it may return a text of its own instead of the room.
  return concat(strerror_r(code, room, sizeof room), " (", code, ")");
}

}  // namespace rdma
