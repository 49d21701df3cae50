#pragma once

#include <cstdint>
#include <span>

#include "base/numbers.h"
#include "packet/feth.h"
#include "packet/frame.h"
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

enum class SendKind : std::uint8_t {
  send,
  send_immediate,
  send_invalidate,
  write,
  write_immediate,
  read,
  compare_swap,
  fetch_add,
  atomic_write,
  flush,
  local_invalidate,
  bind_window,
};

/// Operands of COMPARE_SWAP and FETCH_ADD.
struct AtomicOperands {
  std::uint64_t compare = 0;
  std::uint64_t swap_or_add = 0;
};

/// Where a datagram goes. Connected queue pairs know it themselves.
struct Destination {
  packet::Flow flow{};
  Qpn qpn{};
  std::uint32_t qkey = 0;  // with the top bit set: the queue pair's own (IBA 10.2.5)
};

/// What a window is bound to.
struct WindowBinding {
  Key window{};   // any key that the window has had
  Key new_key{};  // type 2: what the consumer chose; type 1 gets one from the device
  Key region{};
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  unsigned access = 0;
};

/// What FLUSH is about; the range is the request's.
struct FlushOperands {
  packet::Feth what{};
  std::uint32_t length = 0;
};

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
  std::span<const Sge> sges{};

  Key invalidate{};           // send_invalidate, local_invalidate
  AtomicOperands atomic{};    // compare_swap, fetch_add
  FlushOperands flush{};      // flush
  WindowBinding binding{};    // bind_window
  Destination destination{};  // UD
  std::uint32_t xrc_srq = 0;  // XRC
};

struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges{};
};

/// Why a request was not taken; the C ABI returns the errno of the same meaning.
enum class PostResult : std::uint8_t {
  posted,
  queue_full,   // ENOMEM
  bad_state,    // EINVAL
  bad_request,  // EINVAL: too many SGEs, too much inline data, message over 2 GiB
  unsupported,  // EOPNOTSUPP: not an operation of this service
};

}  // namespace verbena::engine
