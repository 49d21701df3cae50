#pragma once

// What a terminal sends for keys.

#include <cstdint>
#include <string>

namespace verbena::top {

struct Key {
  enum class Kind : std::uint8_t {
    character,
    up,
    down,
    left,
    right,
    page_up,
    page_down,
    home,
    end,
    enter,
    escape,
    backspace,
    tab,
    interrupt,  // Ctrl-C
    suspend,    // Ctrl-Z
    redraw,     // Ctrl-L
  };
  Kind kind{};
  char character = 0;

  friend bool operator==(const Key&, const Key&) = default;
};

/// The key that `input` begins with, which it loses; what is no key is passed over. False: there is
/// none, or the beginning of one, which stays. `last`: nothing follows for the moment, so an escape
/// at the end is the key of that name.
[[nodiscard]] bool take_key(std::string& input, bool last, Key& key);

}  // namespace verbena::top
