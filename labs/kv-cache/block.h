#pragma once

// A block of the cache: the keys and values of some tokens of a prompt, and what identifies them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "labs/common/pattern.h"

inline constexpr std::uint32_t kPromptBlocks = 16;  // of each prompt
inline constexpr std::uint32_t kPrefixBlocks = 8;   // the first of them, from a system prompt
inline constexpr std::uint32_t kSystemPrompts = 3;

using Hashes = std::array<std::uint64_t, kPromptBlocks>;

/// Keys and values depend on the block's own tokens and on all tokens before them, and so does its
/// hash. Prompts that begin alike have the same blocks at the beginning.
[[nodiscard]] inline Hashes hashes_of(std::uint64_t request) {
  Hashes hashes{};
  std::uint64_t before = 0;
  for (std::uint32_t number = 0; number < kPromptBlocks; ++number) {
    const bool shared = number < kPrefixBlocks;
    const std::uint64_t text = shared ? request % kSystemPrompts : kSystemPrompts + request;
    before = hashes.at(number) = lab::pattern_word(before, text);
  }
  return hashes;
}

/// Where a block lies. A slot begins a new generation each time that it is filled.
struct Place {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
};

/// Stands in front of each block.
struct Tag {
  std::uint64_t hash = 0;
  std::uint32_t number = 0;  // in its prompt
  std::uint32_t generation = 0;

  friend bool operator==(const Tag&, const Tag&) = default;
};

/// Bytes of a slot: the tag and a block of that size, in whole cache lines.
[[nodiscard]] constexpr std::uint64_t slot_size(std::uint64_t block_size) {
  constexpr std::uint64_t kLine = 64;
  return (sizeof(Tag) + block_size + kLine - 1) / kLine * kLine;
}

/// Stands for the model, which would compute the block.
inline void compute_block(std::span<std::byte> tag_and_block, const Tag& tag) {
  std::memcpy(tag_and_block.data(), &tag, sizeof tag);
  lab::fill_pattern(tag_and_block.subspan(sizeof tag), tag.hash);
}

enum class Found : std::uint8_t {
  whole,
  reused,  // another block has come into the slot
  torn     // the right tag, and bytes of another block
};

[[nodiscard]] inline Tag tag_of(std::span<const std::byte> tag_and_block) {
  Tag tag;
  std::memcpy(&tag, tag_and_block.data(), sizeof tag);
  return tag;
}

[[nodiscard]] inline Found inspect(std::span<const std::byte> tag_and_block, const Tag& wanted) {
  if (tag_of(tag_and_block) != wanted) return Found::reused;
  const auto block = tag_and_block.subspan(sizeof wanted);
  return lab::first_difference(block, wanted.hash) == block.size() ? Found::whole : Found::torn;
}
