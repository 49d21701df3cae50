#include "tools/transfer/chunk_hash.h"

#define XXH_INLINE_ALL  // no library that a program would need at run time
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace verbena::transfer {
namespace {

Hash hash_from(XXH128_hash_t value) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, value);
  Hash hash;
  std::memcpy(hash.data(), bytes.digest, hash.size());
  return hash;
}

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};
using State = std::unique_ptr<XXH3_state_t, FreeState>;

State new_state() {
  State state{XXH3_createState()};
  if (state == nullptr) throw std::bad_alloc{};
  XXH3_128bits_reset(state.get());
  return state;
}

void add_number(XXH3_state_t* state, std::uint64_t value) {
  std::array<std::uint8_t, 8> bytes;
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(value >> 56);
    value <<= 8;
  }
  XXH3_128bits_update(state, bytes.data(), bytes.size());
}

}  // namespace

Hash hash_of(std::span<const std::byte> bytes) {
  return hash_from(XXH3_128bits(bytes.data(), bytes.size()));
}

Hash hash_of_zeros(std::size_t size) {
  static constexpr std::array<std::byte, 65536> kZeros{};
  const State state = new_state();
  while (size > 0) {
    const std::size_t piece = std::min(size, kZeros.size());
    XXH3_128bits_update(state.get(), kZeros.data(), piece);
    size -= piece;
  }
  return hash_from(XXH3_128bits_digest(state.get()));
}

Hash root_of(const Chunks& chunks, const std::vector<Hash>& leaves) {
  const State state = new_state();
  add_number(state.get(), chunks.file_size);
  add_number(state.get(), chunks.chunk_size);
  XXH3_128bits_update(state.get(), leaves.data(), leaves.size() * sizeof(Hash));
  return hash_from(XXH3_128bits_digest(state.get()));
}

}  // namespace verbena::transfer
