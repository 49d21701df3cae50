#pragma once

// What each kind of send request is on the wire, at its completion, and for which services.

#include <array>
#include <cstddef>

#include "engine/completion.h"
#include "engine/work_request.h"
#include "packet/opcode.h"

namespace verbena::engine {

struct SendKindInfo {
  packet::Kind packet = packet::Kind::none;  // none: done without the peer
  packet::Trailer trailer = packet::Trailer::none;
  CompletionKind completion = CompletionKind::send;
  bool answered =
      false;  // completes with a response of its own, not an ACK; max_rd_atomic counts it
  bool uc = false;
  bool ud = false;

  /// The peer needs a receive for it.
  [[nodiscard]] constexpr bool takes_receive() const {
    return packet == packet::Kind::send ||
           (packet == packet::Kind::write && trailer == packet::Trailer::immediate);
  }
};

namespace detail {

constexpr std::array<SendKindInfo, 12> make_send_kinds() {
  using packet::Kind;
  using packet::Trailer;
  using C = CompletionKind;
  std::array<SendKindInfo, 12> t{};
  const auto set = [&t](SendKind k, const SendKindInfo& i) { t[static_cast<std::size_t>(k)] = i; };
  //                                packet              trailer             completion   answered uc
  //                                ud
  set(SendKind::send, {Kind::send, Trailer::none, C::send, false, true, true});
  set(SendKind::send_immediate, {Kind::send, Trailer::immediate, C::send, false, true, true});
  set(SendKind::send_invalidate, {Kind::send, Trailer::invalidate, C::send, false, false, false});
  set(SendKind::write, {Kind::write, Trailer::none, C::write, false, true, false});
  set(SendKind::write_immediate, {Kind::write, Trailer::immediate, C::write, false, true, false});
  set(SendKind::read, {Kind::read_request, Trailer::none, C::read, true, false, false});
  set(SendKind::compare_swap,
      {Kind::compare_swap, Trailer::none, C::compare_swap, true, false, false});
  set(SendKind::fetch_add, {Kind::fetch_add, Trailer::none, C::fetch_add, true, false, false});
  set(SendKind::atomic_write,
      {Kind::atomic_write, Trailer::none, C::atomic_write, true, false, false});
  set(SendKind::flush, {Kind::flush, Trailer::none, C::flush, true, false, false});
  set(SendKind::local_invalidate,
      {Kind::none, Trailer::none, C::local_invalidate, false, true, false});
  set(SendKind::bind_window, {Kind::none, Trailer::none, C::bind_window, false, true, false});
  return t;
}

inline constexpr auto kSendKinds = make_send_kinds();

}  // namespace detail

[[nodiscard]] constexpr const SendKindInfo& info_of(SendKind k) {
  return detail::kSendKinds[static_cast<std::size_t>(k)];
}

}  // namespace verbena::engine
