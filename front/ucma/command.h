#pragma once

// One command of the character device: bytes that the program wrote, room that it gave for the
// answer.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/result.h"
#include "front/ucma/channel.h"
#include "front/ucma/program_copy.h"

namespace verbena::front::ucma {

struct Command {
  int fd = -1;  // of the channel
  Channel& channel;
  std::span<const std::uint8_t> in;
  std::size_t room = 0;  // for the answer

  /// The command's structure. Older programs write shorter ones: the rest is zero.
  template <typename T>
  [[nodiscard]] T as() const {
    T value{};
    std::memcpy(&value, in.data(), std::min(in.size(), sizeof value));
    return value;
  }

  /// ENOSPC: the program has no room for it.
  template <typename T>
  [[nodiscard]] Status answer(std::uint64_t address, const T& value) const {
    return answer(address, &value, sizeof value, sizeof value);
  }
  /// As much as there is room for, but at least so much.
  [[nodiscard]] Status answer(std::uint64_t address, const void* bytes, std::size_t size,
                              std::size_t at_least) const {
    if (room < at_least) {
      return Error{ENOSPC, "the answer has at least " + std::to_string(at_least) +
                               " bytes, and there is room for " + std::to_string(room)};
    }
    return copy_to_program(address, bytes, std::min(room, size));
  }
};

}  // namespace verbena::front::ucma
