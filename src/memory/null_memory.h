#pragma once

// Sans-I/O: the engine includes this.

#include "memory/dma.h"

namespace verbena::memory {

/// Memory that reads as zeros and keeps nothing, at every address. No peer reaches it.
class NullMemory final : public Dma {
 public:
  bool gather(std::span<const Segment>, std::span<std::uint8_t> into) override {
    std::fill(into.begin(), into.end(), std::uint8_t{0});
    return true;
  }
  bool scatter(std::span<const std::uint8_t>, std::span<const Segment>) override { return true; }
  bool scatter_all(std::span<const Copy>) override { return true; }

  std::optional<std::uint64_t> compare_swap(std::uint64_t, std::uint64_t, std::uint64_t) override {
    return std::nullopt;
  }
  std::optional<std::uint64_t> fetch_add(std::uint64_t, std::uint64_t) override {
    return std::nullopt;
  }
  bool store(std::uint64_t, std::uint64_t) override { return false; }
};

}  // namespace verbena::memory
