#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/sim/seeds.h"
#include "tests/sim/world.h"

namespace verbena::sim {

struct Range {
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};

/// What has happened to a piece of memory that was to change.
enum class Effect : std::uint8_t {
  open,     // it looks the same before and after
  none,     //
  partial,  // each byte is either the old or the new one
  whole,    //
  broken,   // neither
};

/// Memory of one end. Each request has a piece of its own, with guard bytes around it.
class Arena {
 public:
  explicit Arena(std::uint8_t fill) : fill_{fill} {}

  /// All pieces are taken before expose().
  Range take(std::uint32_t length) {
    const Range r{size_, length};
    size_ += ((length + 7) & ~7u) + kGuard;  // atomics want aligned words
    pieces_.push_back(r);
    return r;
  }
  void expose(End& end, unsigned access) {
    words_.assign(size_ / 8, 0x0101'0101'0101'0101u * fill_);
    region = end.node->expose(end.pd, bytes(), access);
  }

  [[nodiscard]] std::span<std::uint8_t> bytes() {
    return {reinterpret_cast<std::uint8_t*>(words_.data()), size_};
  }
  [[nodiscard]] std::span<std::uint8_t> at(Range r) { return bytes().subspan(r.offset, r.length); }
  [[nodiscard]] std::uint64_t address_of(Range r) const { return region.iova + r.offset; }
  [[nodiscard]] std::uint8_t fill() const { return fill_; }

  /// A byte that differs from what is there in the beginning.
  [[nodiscard]] std::uint8_t other_byte(Chance& chance) const {
    const std::uint8_t b = chance.byte();
    return b == fill_ ? static_cast<std::uint8_t>(~b) : b;
  }

  /// The piece as a scatter list with so many entries, some of them empty.
  [[nodiscard]] std::vector<engine::Sge> split(Chance& chance, Range r,
                                               std::uint32_t entries) const {
    std::vector<engine::Sge> out;
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; i < entries; ++i) {
      const std::uint32_t left = r.length - at;
      const std::uint32_t n = i + 1 == entries ? left : chance.pick(left + 1);
      out.push_back({address_of(r) + at, n, region.key});
      at += n;
    }
    return out;
  }

  [[nodiscard]] Effect effect(Range r, std::span<const std::uint8_t> before,
                              std::span<const std::uint8_t> after) {
    const auto now = at(r);
    if (std::equal(before.begin(), before.end(), after.begin(), after.end())) {
      return std::equal(now.begin(), now.end(), after.begin()) ? Effect::open : Effect::broken;
    }
    if (std::equal(now.begin(), now.end(), after.begin())) return Effect::whole;
    if (std::equal(now.begin(), now.end(), before.begin())) return Effect::none;
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i] != before[i] && now[i] != after[i]) return Effect::broken;
    }
    return Effect::partial;
  }

  /// Nothing was written outside the pieces.
  [[nodiscard]] bool guards_intact() {
    const auto all = bytes();
    std::uint32_t at = 0;
    for (const Range& r : pieces_) {
      if (!only_fill(all.subspan(at, r.offset - at))) return false;
      at = r.offset + r.length;
    }
    return only_fill(all.subspan(at));
  }

  engine::MemoryRegion region;

 private:
  static constexpr std::uint32_t kGuard = 16;
  [[nodiscard]] bool only_fill(std::span<const std::uint8_t> bytes) const {
    return std::all_of(bytes.begin(), bytes.end(), [&](std::uint8_t b) { return b == fill_; });
  }

  std::uint8_t fill_;
  std::uint32_t size_ = kGuard;
  std::vector<Range> pieces_;
  std::vector<std::uint64_t> words_;
};

}  // namespace verbena::sim
