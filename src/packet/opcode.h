#pragma once

// THE opcode table: what each BTH opcode means and which headers follow it.
// IBA specification, volume 1, section 9.2 (table "OpCode field"); XRC: annex A14; CNP: annex
// A17.9.3; FLUSH and ATOMIC_WRITE: annex A19.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "packet/aeth.h"
#include "packet/atomic_ack_eth.h"
#include "packet/atomic_eth.h"
#include "packet/deth.h"
#include "packet/feth.h"
#include "packet/ieth.h"
#include "packet/immediate.h"
#include "packet/reth.h"
#include "packet/xrceth.h"

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
  rc_atomic_acknowledge = 0x12,
  rc_compare_swap = 0x13,
  rc_fetch_add = 0x14,
  rc_send_last_inv = 0x16,
  rc_send_only_inv = 0x17,
  rc_flush = 0x1c,
  rc_atomic_write = 0x1d,

  uc_send_first = 0x20,
  uc_send_middle = 0x21,
  uc_send_last = 0x22,
  uc_send_last_imm = 0x23,
  uc_send_only = 0x24,
  uc_send_only_imm = 0x25,
  uc_write_first = 0x26,
  uc_write_middle = 0x27,
  uc_write_last = 0x28,
  uc_write_last_imm = 0x29,
  uc_write_only = 0x2a,
  uc_write_only_imm = 0x2b,

  ud_send_only = 0x64,
  ud_send_only_imm = 0x65,

  cnp = 0x81,

  xrc_send_first = 0xa0,
  xrc_send_middle = 0xa1,
  xrc_send_last = 0xa2,
  xrc_send_last_imm = 0xa3,
  xrc_send_only = 0xa4,
  xrc_send_only_imm = 0xa5,
  xrc_write_first = 0xa6,
  xrc_write_middle = 0xa7,
  xrc_write_last = 0xa8,
  xrc_write_last_imm = 0xa9,
  xrc_write_only = 0xaa,
  xrc_write_only_imm = 0xab,
  xrc_read_request = 0xac,
  xrc_read_response_first = 0xad,
  xrc_read_response_middle = 0xae,
  xrc_read_response_last = 0xaf,
  xrc_read_response_only = 0xb0,
  xrc_acknowledge = 0xb1,
  xrc_atomic_acknowledge = 0xb2,
  xrc_compare_swap = 0xb3,
  xrc_fetch_add = 0xb4,
  xrc_send_last_inv = 0xb6,
  xrc_send_only_inv = 0xb7,
  xrc_flush = 0xbc,
  xrc_atomic_write = 0xbd,

  // Of the manufacturer's range, ours: other peers drop them.
  mark = 0xc0,
  mark_reached = 0xc1,
};

/// The upper three bits of an opcode.
enum class Service : std::uint8_t { rc, uc, rd, ud, cnp, xrc, own };

/// The operation that a packet is part of.
enum class Kind : std::uint8_t {
  none,
  send,
  write,
  read_request,
  read_response,
  acknowledge,
  atomic_acknowledge,
  compare_swap,
  fetch_add,
  flush,         // answered by an empty READ response
  atomic_write,  // 8 bytes of payload; answered by an empty READ response
  cnp,           // congestion notification: neither request nor response, and BECN set
  mark,          // UC, UD: "say when you have taken what came before"; the DETH says who asks
  mark_reached,  // the answer, with the mark's PSN, and the receive buffer in the place of a Q_Key
};

/// Where in its message a packet stands; an "only" packet both begins and ends one.
struct Part {
  bool first = false;
  bool last = false;

  friend constexpr bool operator==(Part, Part) = default;
};

/// What a SEND or WRITE message brings along in its last packet.
enum class Trailer : std::uint8_t { none, immediate, invalidate };

/// The headers behind the BTH, in the order in which they stand there.
struct Extensions {
  static constexpr std::size_t kReservedSize = 16;

  bool xrceth = false;
  bool deth = false;
  bool feth = false;
  bool reth = false;
  bool atomic_eth = false;
  bool aeth = false;
  bool atomic_ack_eth = false;
  bool immediate = false;
  bool ieth = false;
  bool reserved = false;  // of a CNP: sent as zeros, ignored

  friend constexpr Extensions operator|(const Extensions& a, const Extensions& b) {
    return {.xrceth = a.xrceth || b.xrceth,
            .deth = a.deth || b.deth,
            .feth = a.feth || b.feth,
            .reth = a.reth || b.reth,
            .atomic_eth = a.atomic_eth || b.atomic_eth,
            .aeth = a.aeth || b.aeth,
            .atomic_ack_eth = a.atomic_ack_eth || b.atomic_ack_eth,
            .immediate = a.immediate || b.immediate,
            .ieth = a.ieth || b.ieth,
            .reserved = a.reserved || b.reserved};
  }

  [[nodiscard]] constexpr std::size_t size() const {
    std::size_t n = 0;
    if (xrceth) n += Xrceth::kSize;
    if (deth) n += Deth::kSize;
    if (feth) n += Feth::kSize;
    if (reth) n += Reth::kSize;
    if (atomic_eth) n += AtomicEth::kSize;
    if (aeth) n += Aeth::kSize;
    if (atomic_ack_eth) n += AtomicAckEth::kSize;
    if (immediate) n += kImmediateSize;
    if (ieth) n += Ieth::kSize;
    if (reserved) n += kReservedSize;
    return n;
  }
};

struct OpcodeInfo : Extensions {
  std::string_view name;  // empty: an opcode that we don't know
  Service service = Service::rc;
  Kind kind = Kind::none;
  bool first = false;  // begins a message; an "only" packet both begins and ends one
  bool last = false;
  std::uint8_t extension_bytes = 0;

  [[nodiscard]] constexpr bool known() const { return !name.empty(); }
  [[nodiscard]] constexpr bool is_request() const {
    return kind == Kind::send || kind == Kind::write || kind == Kind::read_request ||
           kind == Kind::compare_swap || kind == Kind::fetch_add || kind == Kind::flush ||
           kind == Kind::atomic_write;
  }
  [[nodiscard]] constexpr bool is_response() const {
    return kind == Kind::read_response || kind == Kind::acknowledge ||
           kind == Kind::atomic_acknowledge;
  }
  /// Between two of us about the flow of packets, beside every service.
  [[nodiscard]] constexpr bool is_mark() const {
    return kind == Kind::mark || kind == Kind::mark_reached;
  }
  [[nodiscard]] constexpr Part part() const { return {first, last}; }
  [[nodiscard]] constexpr Trailer trailer() const {
    return immediate ? Trailer::immediate : ieth ? Trailer::invalidate : Trailer::none;
  }
  /// Bytes between the BTH and the payload.
  [[nodiscard]] constexpr std::size_t extension_size() const { return extension_bytes; }
};

namespace detail {

struct Row {
  Opcode opcode;
  std::string_view name;
  Kind kind;
  Part part;
  Extensions extensions;
};

using K = Kind;
using enum Opcode;

inline constexpr Part kFirst{.first = true, .last = false};
inline constexpr Part kMiddle{.first = false, .last = false};
inline constexpr Part kLast{.first = false, .last = true};
inline constexpr Part kOnly{.first = true, .last = true};

inline constexpr Extensions kXrceth{.xrceth = true};
inline constexpr Extensions kDeth{.deth = true};
inline constexpr Extensions kFeth{.feth = true};
inline constexpr Extensions kReth{.reth = true};
inline constexpr Extensions kAtomicEth{.atomic_eth = true};
inline constexpr Extensions kAeth{.aeth = true};
inline constexpr Extensions kAtomicAckEth{.atomic_ack_eth = true};
inline constexpr Extensions kImm{.immediate = true};
inline constexpr Extensions kIeth{.ieth = true};
inline constexpr Extensions kReserved{.reserved = true};

inline constexpr Row kRows[] = {
    {rc_send_first, "RC SEND first", K::send, kFirst, {}},
    {rc_send_middle, "RC SEND middle", K::send, kMiddle, {}},
    {rc_send_last, "RC SEND last", K::send, kLast, {}},
    {rc_send_last_imm, "RC SEND last with immediate", K::send, kLast, kImm},
    {rc_send_only, "RC SEND only", K::send, kOnly, {}},
    {rc_send_only_imm, "RC SEND only with immediate", K::send, kOnly, kImm},
    {rc_write_first, "RC WRITE first", K::write, kFirst, kReth},
    {rc_write_middle, "RC WRITE middle", K::write, kMiddle, {}},
    {rc_write_last, "RC WRITE last", K::write, kLast, {}},
    {rc_write_last_imm, "RC WRITE last with immediate", K::write, kLast, kImm},
    {rc_write_only, "RC WRITE only", K::write, kOnly, kReth},
    {rc_write_only_imm, "RC WRITE only with immediate", K::write, kOnly, kReth | kImm},
    {rc_read_request, "RC READ request", K::read_request, kOnly, kReth},
    {rc_read_response_first, "RC READ response first", K::read_response, kFirst, kAeth},
    {rc_read_response_middle, "RC READ response middle", K::read_response, kMiddle, {}},
    {rc_read_response_last, "RC READ response last", K::read_response, kLast, kAeth},
    {rc_read_response_only, "RC READ response only", K::read_response, kOnly, kAeth},
    {rc_acknowledge, "RC ACKNOWLEDGE", K::acknowledge, kOnly, kAeth},
    {rc_atomic_acknowledge, "RC ATOMIC ACKNOWLEDGE", K::atomic_acknowledge, kOnly,
     kAeth | kAtomicAckEth},
    {rc_compare_swap, "RC COMPARE_SWAP", K::compare_swap, kOnly, kAtomicEth},
    {rc_fetch_add, "RC FETCH_ADD", K::fetch_add, kOnly, kAtomicEth},
    {rc_send_last_inv, "RC SEND last with invalidate", K::send, kLast, kIeth},
    {rc_send_only_inv, "RC SEND only with invalidate", K::send, kOnly, kIeth},
    {rc_flush, "RC FLUSH", K::flush, kOnly, kFeth | kReth},
    {rc_atomic_write, "RC ATOMIC_WRITE", K::atomic_write, kOnly, kReth},

    {uc_send_first, "UC SEND first", K::send, kFirst, {}},
    {uc_send_middle, "UC SEND middle", K::send, kMiddle, {}},
    {uc_send_last, "UC SEND last", K::send, kLast, {}},
    {uc_send_last_imm, "UC SEND last with immediate", K::send, kLast, kImm},
    {uc_send_only, "UC SEND only", K::send, kOnly, {}},
    {uc_send_only_imm, "UC SEND only with immediate", K::send, kOnly, kImm},
    {uc_write_first, "UC WRITE first", K::write, kFirst, kReth},
    {uc_write_middle, "UC WRITE middle", K::write, kMiddle, {}},
    {uc_write_last, "UC WRITE last", K::write, kLast, {}},
    {uc_write_last_imm, "UC WRITE last with immediate", K::write, kLast, kImm},
    {uc_write_only, "UC WRITE only", K::write, kOnly, kReth},
    {uc_write_only_imm, "UC WRITE only with immediate", K::write, kOnly, kReth | kImm},

    {ud_send_only, "UD SEND only", K::send, kOnly, kDeth},
    {ud_send_only_imm, "UD SEND only with immediate", K::send, kOnly, kDeth | kImm},

    {cnp, "CNP", K::cnp, kOnly, kReserved},

    {mark, "MARK", K::mark, kOnly, kDeth},
    {mark_reached, "MARK reached", K::mark_reached, kOnly, kDeth},

    {xrc_send_first, "XRC SEND first", K::send, kFirst, kXrceth},
    {xrc_send_middle, "XRC SEND middle", K::send, kMiddle, kXrceth},
    {xrc_send_last, "XRC SEND last", K::send, kLast, kXrceth},
    {xrc_send_last_imm, "XRC SEND last with immediate", K::send, kLast, kXrceth | kImm},
    {xrc_send_only, "XRC SEND only", K::send, kOnly, kXrceth},
    {xrc_send_only_imm, "XRC SEND only with immediate", K::send, kOnly, kXrceth | kImm},
    {xrc_write_first, "XRC WRITE first", K::write, kFirst, kXrceth | kReth},
    {xrc_write_middle, "XRC WRITE middle", K::write, kMiddle, kXrceth},
    {xrc_write_last, "XRC WRITE last", K::write, kLast, kXrceth},
    {xrc_write_last_imm, "XRC WRITE last with immediate", K::write, kLast, kXrceth | kImm},
    {xrc_write_only, "XRC WRITE only", K::write, kOnly, kXrceth | kReth},
    {xrc_write_only_imm, "XRC WRITE only with immediate", K::write, kOnly, kXrceth | kReth | kImm},
    {xrc_read_request, "XRC READ request", K::read_request, kOnly, kXrceth | kReth},
    {xrc_read_response_first, "XRC READ response first", K::read_response, kFirst, kAeth},
    {xrc_read_response_middle, "XRC READ response middle", K::read_response, kMiddle, {}},
    {xrc_read_response_last, "XRC READ response last", K::read_response, kLast, kAeth},
    {xrc_read_response_only, "XRC READ response only", K::read_response, kOnly, kAeth},
    {xrc_acknowledge, "XRC ACKNOWLEDGE", K::acknowledge, kOnly, kAeth},
    {xrc_atomic_acknowledge, "XRC ATOMIC ACKNOWLEDGE", K::atomic_acknowledge, kOnly,
     kAeth | kAtomicAckEth},
    {xrc_compare_swap, "XRC COMPARE_SWAP", K::compare_swap, kOnly, kXrceth | kAtomicEth},
    {xrc_fetch_add, "XRC FETCH_ADD", K::fetch_add, kOnly, kXrceth | kAtomicEth},
    {xrc_send_last_inv, "XRC SEND last with invalidate", K::send, kLast, kXrceth | kIeth},
    {xrc_send_only_inv, "XRC SEND only with invalidate", K::send, kOnly, kXrceth | kIeth},
    {xrc_flush, "XRC FLUSH", K::flush, kOnly, kXrceth | kFeth | kReth},
    {xrc_atomic_write, "XRC ATOMIC_WRITE", K::atomic_write, kOnly, kXrceth | kReth},
};

constexpr Service service_of(Opcode op) {
  return static_cast<Service>(static_cast<std::uint8_t>(op) >> 5);
}

inline constexpr auto kOpcodeTable = [] {
  std::array<OpcodeInfo, 256> t{};
  for (const Row& r : kRows) {
    t[static_cast<std::size_t>(r.opcode)] = {r.extensions,
                                             r.name,
                                             service_of(r.opcode),
                                             r.kind,
                                             r.part.first,
                                             r.part.last,
                                             static_cast<std::uint8_t>(r.extensions.size())};
  }
  return t;
}();

}  // namespace detail

[[nodiscard]] constexpr const OpcodeInfo& info_of(Opcode op) {
  return detail::kOpcodeTable[static_cast<std::size_t>(op)];
}

namespace detail {

/// The table read backwards: service, kind, part and trailer to opcode.
class OpcodeIndex {
 public:
  constexpr OpcodeIndex() {
    opcodes_.fill(kNoOpcode);
    for (const Row& r : kRows) {
      const OpcodeInfo& info = info_of(r.opcode);
      opcodes_[place(info.service, info.kind, info.part(), info.trailer())] =
          static_cast<std::uint8_t>(r.opcode);
    }
    for (const Row& r : kRows) add_packets_before(info_of(r.opcode));
  }

  [[nodiscard]] constexpr std::optional<Opcode> find(Service s, Kind k, Part p, Trailer t) const {
    const std::uint8_t op = opcodes_[place(s, k, p, t)];
    if (op == kNoOpcode) return std::nullopt;
    return static_cast<Opcode>(op);
  }

 private:
  static constexpr std::uint8_t kNoOpcode = 0xff;  // manufacturer's, never in the table
  static constexpr std::size_t kServices = static_cast<std::size_t>(Service::own) + 1;
  static constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::mark_reached) + 1;
  static constexpr std::size_t kParts = 4;
  static constexpr std::size_t kTrailers = static_cast<std::size_t>(Trailer::invalidate) + 1;

  static constexpr std::size_t place(Service s, Kind k, Part p, Trailer t) {
    const std::size_t part = (p.first ? 1u : 0u) + (p.last ? 2u : 0u);
    return ((static_cast<std::size_t>(s) * kKinds + static_cast<std::size_t>(k)) * kParts + part) *
               kTrailers +
           static_cast<std::size_t>(t);
  }

  /// A message whose last packet has a trailer begins as one without.
  constexpr void add_packets_before(const OpcodeInfo& last) {
    if (last.trailer() == Trailer::none) return;
    for (const Part part : {kFirst, kMiddle}) {
      opcodes_[place(last.service, last.kind, part, last.trailer())] =
          opcodes_[place(last.service, last.kind, part, Trailer::none)];
    }
  }

  std::array<std::uint8_t, kServices * kKinds * kParts * kTrailers> opcodes_{};
};

inline constexpr OpcodeIndex kOpcodeIndex;

}  // namespace detail

/// The opcode of one packet of a message. `trailer` is the message's: packets before the last
/// don't show it. nullopt: the service has no such packet.
[[nodiscard]] constexpr std::optional<Opcode> opcode_for(Service service, Kind kind, Part part,
                                                         Trailer trailer = Trailer::none) {
  return detail::kOpcodeIndex.find(service, kind, part, trailer);
}

}  // namespace verbena::packet
