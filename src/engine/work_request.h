#pragma once

#include <cstdint>
#include <span>

#include "base/numbers.h"
#include "packet/packet.h"

namespace verbena::engine {

/// IBA 9.7.7.1.1.
inline constexpr std::uint32_t kMaxMessage = 1u << 31;

/// Packets of a message; an empty one has one, too.
[[nodiscard]] constexpr std::uint32_t packets_of(std::uint32_t length, std::uint32_t mtu) {
  return length == 0 ? 1 : (length - 1) / mtu + 1;
}

/// A piece of registered local memory.
struct Sge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  Key lkey{};
};

enum class SendKind : std::uint8_t { send, send_immediate, write, write_immediate, read };

struct SendRequest {
  std::uint64_t wr_id = 0;
  SendKind kind = SendKind::send;
  bool signaled = false;
  bool solicited = false;
  bool fence = false;
  bool inlined = false;  // the bytes are copied at once; lkeys are not looked at
  packet::Immediate immediate{};
  std::uint64_t remote_address = 0;
  Key rkey{};
  std::span<const Sge> sges;
};

struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges;
};

/// Why a request was not taken; the C ABI returns the errno of the same meaning.
enum class PostResult : std::uint8_t {
  posted,
  queue_full,   // ENOMEM
  bad_state,    // EINVAL
  bad_request,  // EINVAL: too many SGEs, too much inline data, message over 2 GiB
};

}  // namespace verbena::engine
