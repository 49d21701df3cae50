// libFuzzer changes an input, or the target does.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  std::mt19937_64 random{seed};
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  verbena::fuzz::Bytes input(data, data + size);
  if (!verbena::fuzz::change(input, random)) return LLVMFuzzerMutate(data, size, max_size);
  input.resize(std::min(input.size(), max_size));
  std::copy(input.begin(), input.end(), data);
  return input.size();
}
