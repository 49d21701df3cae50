#pragma once

// src/wire/shm as it is, over a modelled memory: inside its namespace, the names of std:: and
// kernel:: that touch memory or wake somebody are ours. This program doesn't link the wire itself.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "packet/frame.h"
#include "packet/packet.h"
#include "system/fd.h"
#include "system/kernel_calls.h"
#include "tests/interleaving/explorer.h"

namespace verbena::interleaving {

/// Descriptors of bells begin here, where no real one is.
inline constexpr int kBells = 1'000'000;

/// The segments of both threads: rings of Segment::kRingBytes each.
bool is_shared(const void* address);
const void* line_of(const void* address);

template <typename T>
class Word {
 public:
  Word() = default;
  static constexpr bool is_always_lock_free = true;
  T load(std::memory_order order) const {
    return static_cast<T>(Explorer::current().load(this, order));
  }
  void store(T value, std::memory_order order) { Explorer::current().store(this, value, order); }
  /// Of a word that no other thread sees: a full fence in builds where there is no other.
  void fetch_add(T, std::memory_order) { Explorer::current().fence(); }

 private:
  T bits_;  // its place alone counts
};

template <typename T>
class WordRef {
 public:
  explicit WordRef(T& word) : word_{&word} {}
  T load(std::memory_order order) const {
    return static_cast<T>(Explorer::current().load(word_, order));
  }
  void store(T value, std::memory_order order) const {
    Explorer::current().store(word_, value, order);
  }

 private:
  T* word_;
};

}  // namespace verbena::interleaving

namespace verbena::wire::shm {

namespace std {
using namespace ::std;
template <typename T>
using atomic = interleaving::Word<T>;
template <typename T>
struct atomic_ref : interleaving::WordRef<T> {
  explicit atomic_ref(T& word) : interleaving::WordRef<T>{word} {}
};
template <typename T>
atomic_ref(T&) -> atomic_ref<T>;
inline void atomic_thread_fence(::std::memory_order) { interleaving::Explorer::current().fence(); }
inline void* memcpy(void* to, const void* from, ::std::size_t size) {
  if (interleaving::is_shared(from)) {
    interleaving::Explorer::current().read(interleaving::line_of(from));
  }
  if (interleaving::is_shared(to)) {
    interleaving::Explorer::current().write(interleaving::line_of(to));
  }
  return ::std::memcpy(to, from, size);
}
}  // namespace std

namespace kernel {
inline ssize_t write(int bell, const void*, ::std::size_t size) {
  interleaving::Explorer::current().ring(static_cast<::std::size_t>(bell - interleaving::kBells));
  return static_cast<ssize_t>(size);
}
}  // namespace kernel

}  // namespace verbena::wire::shm
