#pragma once

// What each fuzz target offers: libFuzzer's entry, and what recordings of packets become as its
// inputs.

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/pcap.h"

namespace verbena::fuzz {

using Bytes = std::vector<std::uint8_t>;

using Recording = std::vector<test::Captured>;

[[nodiscard]] std::vector<Bytes> seeds_of(const std::vector<Recording>& recordings);

/// A change that keeps the structure of an input. False: the target's have none.
bool change(Bytes& input, std::mt19937_64& random);

}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
