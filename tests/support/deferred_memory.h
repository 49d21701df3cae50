#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "memory/dma.h"

namespace verbena::test {

/// A kind of memory whose copies take time, as a GPU's do: nothing moves before finish(). Its
/// addresses mean nothing to the CPU.
class DeferredMemory final : public memory::Dma {
 public:
  explicit DeferredMemory(std::size_t size) : bytes(size) {}

  [[nodiscard]] memory::Segment at(std::size_t offset, std::size_t size) {
    return {kBase + offset, size, this};
  }

  Status prepare(const memory::Segment& range, bool) override {
    return inside(range) ? Status{Ok{}} : Status{Error{EFAULT, "beyond the memory"}};
  }
  bool gather(std::span<const memory::Segment> from, std::span<std::uint8_t> into) override {
    for (const memory::Segment& s : from) {
      if (!inside(s)) return false;
      reads_.push_back({s.address - kBase, into.first(s.length)});
      into = into.subspan(s.length);
    }
    ++starts;
    set_pending(true);
    return true;
  }
  bool scatter(std::span<const std::uint8_t> from, std::span<const memory::Segment> into) override {
    for (const memory::Segment& s : into) {
      if (!inside(s)) return false;
      writes_.push_back({from.first(s.length), s.address - kBase});
      from = from.subspan(s.length);
    }
    ++starts;
    set_pending(true);
    return true;
  }
  bool finish() override {
    ++finishes;
    set_pending(false);
    if (!fails) {
      for (const Read& r : reads_) std::memcpy(r.into.data(), &bytes[r.offset], r.into.size());
      for (const memory::Copy& c : writes_) std::memcpy(&bytes[c.to], c.from.data(), c.from.size());
    }
    reads_.clear();
    writes_.clear();
    return !fails;
  }

  std::optional<std::uint64_t> compare_swap(std::uint64_t, std::uint64_t, std::uint64_t) override {
    return std::nullopt;
  }
  std::optional<std::uint64_t> fetch_add(std::uint64_t address, std::uint64_t add) override {
    std::uint64_t word = 0;
    std::memcpy(&word, &bytes[address - kBase], sizeof word);
    const std::uint64_t sum = word + add;
    std::memcpy(&bytes[address - kBase], &sum, sizeof sum);
    return word;
  }
  bool store(std::uint64_t, std::uint64_t) override { return false; }

  std::vector<std::uint8_t> bytes;
  bool fails = false;  // from now on finish() does
  int starts = 0;
  int finishes = 0;

 private:
  static constexpr std::uint64_t kBase = 0x7fff'0000'0000'0000;  // no address of a program's

  struct Read {
    std::uint64_t offset;
    std::span<std::uint8_t> into;
  };
  [[nodiscard]] bool inside(const memory::Segment& s) const {
    return s.backing == this && s.address >= kBase && s.address - kBase + s.length <= bytes.size();
  }

  std::vector<Read> reads_;
  std::vector<memory::Copy> writes_;
};

}  // namespace verbena::test
