#pragma once

// Where each field of the headers stands, for who shows them: the page of a report decodes bytes
// with this table. It names what src/packet encodes; a test compares both for every opcode.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "packet/opcode.h"

namespace verbena::report {

/// How a field is shown.
enum class Print : std::uint8_t {
  hex,
  decimal,
  flag,
  opcode,    // with its name
  choice,    // one of `names`
  syndrome,  // five bits whose sense goes by the type in front of them
  bytes,
};

struct Field {
  std::string_view name;
  std::uint16_t offset = 0;  // bits from the start of its header
  std::uint16_t width = 0;   // bits
  Print print = Print::hex;
  std::string_view names = {};  // of a choice, from 0 on, with | between them
};

struct Header {
  std::string_view name;
  std::string_view title;
  std::uint16_t size = 0;  // bytes
  std::span<const Field> fields;
};

/// All headers; each field once, without holes.
[[nodiscard]] std::span<const Header> headers();

/// Names of the headers that a packet of this opcode begins with, in their order. Empty: an opcode
/// that we don't know.
[[nodiscard]] std::vector<std::string_view> headers_of(packet::Opcode opcode);

[[nodiscard]] std::string_view text(Print print);

}  // namespace verbena::report
