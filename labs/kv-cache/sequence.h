#pragma once

// A request while it is decoded: its block table, and which blocks its next token needs.

#include <array>
#include <cstdint>

#include "labs/kv-cache/settings.h"

class Sequence {
 public:
  explicit Sequence(const BlockTable& table) : table_{table}, hashes_{hashes_of(table.request)} {}

  [[nodiscard]] std::uint32_t request() const { return table_.request; }
  [[nodiscard]] Place place_of(std::uint32_t number) const { return table_.places.at(number); }
  /// What the block must be.
  [[nodiscard]] Tag tag_of(std::uint32_t number) const {
    return {hashes_.at(number), number, place_of(number).generation};
  }

  /// As sparse attention does: the first block and the last, and two that this token asks for.
  [[nodiscard]] std::array<std::uint32_t, 4> needs() const {
    const std::uint64_t query = lab::pattern_word(table_.request, step_);
    return {0, kPromptBlocks - 1, static_cast<std::uint32_t>(query % kPromptBlocks),
            static_cast<std::uint32_t>(query / kPromptBlocks % kPromptBlocks)};
  }

  void finish_step() { ++step_; }
  [[nodiscard]] bool finished() const { return step_ == steps(); }

 private:
  /// Answers have different lengths.
  [[nodiscard]] std::uint64_t steps() const { return 4 + lab::mix(table_.request) % 16; }

  BlockTable table_;
  Hashes hashes_;
  std::uint64_t step_ = 0;  // a token of the answer each
};
