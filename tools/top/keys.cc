#include "tools/top/keys.h"

#include <array>
#include <optional>
#include <string_view>

namespace verbena::top {
namespace {

constexpr char kEscape = 0x1b;

struct Sequence {
  std::string_view bytes;  // behind ESC [ or ESC O
  Key::Kind kind;
};
// Of xterm and what follows it, of the Linux console, of rxvt and of screen.
constexpr std::array kSequences{
    Sequence{"A", Key::Kind::up},       Sequence{"B", Key::Kind::down},
    Sequence{"C", Key::Kind::right},    Sequence{"D", Key::Kind::left},
    Sequence{"H", Key::Kind::home},     Sequence{"F", Key::Kind::end},
    Sequence{"1~", Key::Kind::home},    Sequence{"4~", Key::Kind::end},
    Sequence{"7~", Key::Kind::home},    Sequence{"8~", Key::Kind::end},
    Sequence{"5~", Key::Kind::page_up}, Sequence{"6~", Key::Kind::page_down},
};

std::optional<Key> plain_key(char c) {
  using Kind = Key::Kind;
  switch (c) {
    case '\r':
    case '\n':
      return Key{Kind::enter};
    case '\t':
      return Key{Kind::tab};
    case 0x7f:
    case '\b':
      return Key{Kind::backspace};
    case 0x03:
      return Key{Kind::interrupt};
    case 0x1a:
      return Key{Kind::suspend};
    case 0x0c:
      return Key{Kind::redraw};
    default:
      break;
  }
  const auto byte = static_cast<unsigned char>(c);
  if (byte < ' ' || byte >= 0x80) return std::nullopt;  // others, and bytes of UTF-8
  return Key{Kind::character, c};
}

/// ECMA-48: parameters and intermediates, then one final byte.
bool is_final(char c) { return c >= 0x40 && c <= 0x7e; }

/// Length of the sequence that begins with ESC; 0: it isn't complete.
std::size_t sequence_size(std::string_view input) {
  if (input.size() < 2) return 0;
  if (input[1] != '[' && input[1] != 'O') return 1;  // the key, then another one
  for (std::size_t i = 2; i < input.size(); ++i) {
    if (is_final(input[i])) return i + 1;
  }
  return 0;
}

std::optional<Key> key_of(std::string_view sequence) {
  if (sequence.size() == 1) return Key{Key::Kind::escape};
  for (const Sequence& known : kSequences) {
    if (sequence.substr(2) == known.bytes) return Key{known.kind};
  }
  return std::nullopt;
}

}  // namespace

bool take_key(std::string& input, bool last, Key& key) {
  while (!input.empty()) {
    std::size_t size = 1;
    std::optional<Key> found;
    if (input.front() != kEscape) {
      found = plain_key(input.front());
    } else {
      size = sequence_size(input);
      if (size == 0 && !last) return false;
      if (size == 0) size = 1;
      found = key_of(std::string_view{input}.substr(0, size));
    }
    input.erase(0, size);
    if (!found) continue;
    key = *found;
    return true;
  }
  return false;
}

}  // namespace verbena::top
