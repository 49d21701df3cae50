#pragma once

// THE opcode table: what each BTH opcode means and which headers follow it.
// IBA specification, volume 1, section 9.2 (table "OpCode field").

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbena::packet {

enum class Opcode : std::uint8_t {
  rc_send_first = 0x00,
  rc_send_middle = 0x01,
  rc_send_last = 0x02,
  rc_send_last_imm = 0x03,
  rc_send_only = 0x04,
  rc_send_only_imm = 0x05,
  rc_write_first = 0x06,
  rc_write_middle = 0x07,
  rc_write_last = 0x08,
  rc_write_last_imm = 0x09,
  rc_write_only = 0x0a,
  rc_write_only_imm = 0x0b,
  rc_read_request = 0x0c,
  rc_read_response_first = 0x0d,
  rc_read_response_middle = 0x0e,
  rc_read_response_last = 0x0f,
  rc_read_response_only = 0x10,
  rc_acknowledge = 0x11,
  rc_send_last_inv = 0x16,
  rc_send_only_inv = 0x17,
};

enum class Service : std::uint8_t { rc, uc, rd, ud, cnp, xrc };

/// The operation that a packet is part of.
enum class Kind : std::uint8_t { none, send, write, read_request, read_response, acknowledge };

struct OpcodeInfo {
  std::string_view name;  // empty: an opcode that we don't know
  Service service = Service::rc;
  Kind kind = Kind::none;
  bool first = false;  // begins a message; an "only" packet both begins and ends one
  bool last = false;
  bool reth = false;
  bool aeth = false;
  bool immediate = false;
  bool ieth = false;

  [[nodiscard]] constexpr bool known() const { return !name.empty(); }
  [[nodiscard]] constexpr bool is_request() const {
    return kind == Kind::send || kind == Kind::write || kind == Kind::read_request;
  }
  /// Bytes between the BTH and the payload.
  [[nodiscard]] constexpr std::size_t extension_size() const {
    return (reth ? 16u : 0u) + (aeth ? 4u : 0u) + (immediate ? 4u : 0u) + (ieth ? 4u : 0u);
  }
};

namespace detail {

constexpr std::array<OpcodeInfo, 256> make_opcode_table() {
  std::array<OpcodeInfo, 256> t{};
  using enum Opcode;
  using enum Kind;
  const auto rc = Service::rc;
  const auto set = [&t](Opcode op, const OpcodeInfo& info) {
    t[static_cast<std::size_t>(op)] = info;
  };
  set(rc_send_first, {"RC SEND first", rc, send, true, false});
  set(rc_send_middle, {"RC SEND middle", rc, send, false, false});
  set(rc_send_last, {"RC SEND last", rc, send, false, true});
  set(rc_send_last_imm, {"RC SEND last with immediate", rc, send, false, true, false, false, true});
  set(rc_send_only, {"RC SEND only", rc, send, true, true});
  set(rc_send_only_imm, {"RC SEND only with immediate", rc, send, true, true, false, false, true});
  set(rc_write_first, {"RC WRITE first", rc, write, true, false, true});
  set(rc_write_middle, {"RC WRITE middle", rc, write, false, false});
  set(rc_write_last, {"RC WRITE last", rc, write, false, true});
  set(rc_write_last_imm,
      {"RC WRITE last with immediate", rc, write, false, true, false, false, true});
  set(rc_write_only, {"RC WRITE only", rc, write, true, true, true});
  set(rc_write_only_imm,
      {"RC WRITE only with immediate", rc, write, true, true, true, false, true});
  set(rc_read_request, {"RC READ request", rc, read_request, true, true, true});
  set(rc_read_response_first,
      {"RC READ response first", rc, read_response, true, false, false, true});
  set(rc_read_response_middle, {"RC READ response middle", rc, read_response, false, false});
  set(rc_read_response_last,
      {"RC READ response last", rc, read_response, false, true, false, true});
  set(rc_read_response_only, {"RC READ response only", rc, read_response, true, true, false, true});
  set(rc_acknowledge, {"RC ACKNOWLEDGE", rc, acknowledge, true, true, false, true});
  set(rc_send_last_inv,
      {"RC SEND last with invalidate", rc, send, false, true, false, false, false, true});
  set(rc_send_only_inv,
      {"RC SEND only with invalidate", rc, send, true, true, false, false, false, true});
  return t;
}

inline constexpr auto kOpcodeTable = make_opcode_table();

}  // namespace detail

[[nodiscard]] constexpr const OpcodeInfo& info_of(Opcode op) {
  return detail::kOpcodeTable[static_cast<std::size_t>(op)];
}

}  // namespace verbena::packet
