#pragma once

// A memory between two threads in which a load may find an old value, as C++ allows: what is
// stored becomes visible to the other thread late, and in another order, unless release, acquire
// or a full fence say otherwise. That is weaker than the store buffers of x86, and about what ARM
// does. (Loads don't see stores that come later: no machine that we run on does that with words
// that are compared before they are acted upon.)
//
// Each word is stored to by one thread alone, so its values have an order; each thread has a view:
// per word, the oldest value that it may still find. Bytes that aren't atomic are only checked for
// races: who reads or overwrites them must have heard of the other's last access.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace verbena::interleaving {

inline constexpr std::size_t kThreads = 2;

/// What a thread knows: for each word the number of its oldest value that may be found, for each
/// thread how much of what it did is known to have happened.
struct View {
  std::vector<std::uint32_t> words{};
  std::array<std::uint32_t, kThreads> steps{};

  void join(const View& other) {
    if (words.size() < other.words.size()) words.resize(other.words.size());
    for (std::size_t i = 0; i < other.words.size(); ++i)
      words[i] = std::max(words[i], other.words[i]);
    for (std::size_t i = 0; i < kThreads; ++i) steps[i] = std::max(steps[i], other.steps[i]);
  }
  [[nodiscard]] std::uint32_t of(std::size_t word) const {
    return word < words.size() ? words[word] : 0;
  }
  void know(std::size_t word, std::uint32_t value) {
    if (words.size() <= word) words.resize(word + 1);
    words[word] = std::max(words[word], value);
  }
};

/// What a check of the check itself takes away.
struct Weakness {
  bool fences = false;    // no full fence does anything
  bool releases = false;  // every store is relaxed
  bool acquires = false;  // every load is relaxed
};

class Memory {
 public:
  explicit Memory(const Weakness& weakness) : weakness_{weakness} {}

  /// How many values a load may find: all from the oldest that the thread may see to the newest.
  [[nodiscard]] std::size_t choices(std::size_t thread, const void* address) {
    const std::size_t word = word_of(address);
    return words_[word].size() - now_[thread].of(word);
  }
  /// `choice` 0: the newest.
  std::uint64_t load(std::size_t thread, const void* address, std::memory_order order,
                     std::size_t choice) {
    const std::size_t word = word_of(address);
    const std::size_t at = words_[word].size() - 1 - choice;
    const Value& value = words_[word][at];
    now_[thread].know(word, static_cast<std::uint32_t>(at));
    later_[thread].know(word, static_cast<std::uint32_t>(at));
    later_[thread].join(value.released);
    const bool acquires = order == std::memory_order_acquire || order == std::memory_order_seq_cst;
    if (acquires && !weakness_.acquires) now_[thread].join(value.released);
    return value.bits;
  }
  void store(std::size_t thread, const void* address, std::uint64_t bits, std::memory_order order) {
    const std::size_t word = word_of(address);
    ++now_[thread].steps[thread];
    const auto number = static_cast<std::uint32_t>(words_[word].size());
    const bool releases = order == std::memory_order_release || order == std::memory_order_seq_cst;
    Value value{bits, releases && !weakness_.releases ? now_[thread] : fenced_[thread]};
    value.released.know(word, number);
    words_[word].push_back(std::move(value));
    now_[thread].know(word, number);
    later_[thread].know(word, number);
  }
  /// memory_order_seq_cst.
  void fence(std::size_t thread) {
    if (weakness_.fences) return;
    now_[thread].join(later_[thread]);
    now_[thread].join(full_);
    full_ = now_[thread];
    later_[thread].join(now_[thread]);
    fenced_[thread] = now_[thread];
  }

  /// Bytes that aren't atomic. False: a race with the other thread.
  [[nodiscard]] bool read(std::size_t thread, const void* place) {
    Plain& bytes = plain_[place];
    ++now_[thread].steps[thread];
    bytes.read[thread] = now_[thread].steps[thread];
    return bytes.written_by == thread || knows(thread, bytes.written_by, bytes.written);
  }
  [[nodiscard]] bool write(std::size_t thread, const void* place) {
    Plain& bytes = plain_[place];
    ++now_[thread].steps[thread];
    const std::size_t other = 1 - thread;
    const bool alone = knows(thread, other, bytes.read[other]) &&
                       (bytes.written_by == thread || knows(thread, other, bytes.written));
    bytes.written_by = thread;
    bytes.written = now_[thread].steps[thread];
    return alone;
  }

  /// Both threads know all that has happened: the end of a preparation.
  void settle() {
    for (std::size_t t = 0; t < kThreads; ++t) fence(t);
    View all = now_[0];
    all.join(now_[1]);
    now_ = later_ = fenced_ = {all, all};
    full_ = all;
  }

 private:
  struct Value {
    std::uint64_t bits = 0;
    View released{};  // what a thread knows that acquires it
  };
  struct Plain {
    std::size_t written_by = 0;
    std::uint32_t written = 0;
    std::array<std::uint32_t, kThreads> read{};
  };

  [[nodiscard]] std::size_t word_of(const void* address) {
    const auto [found, added] = numbers_.emplace(address, words_.size());
    if (added) words_.push_back({Value{}});  // zeros
    return found->second;
  }
  [[nodiscard]] bool knows(std::size_t thread, std::size_t other, std::uint32_t step) const {
    return now_[thread].steps[other] >= step;
  }

  Weakness weakness_;
  std::map<const void*, std::size_t> numbers_;
  std::vector<std::vector<Value>> words_;
  std::map<const void*, Plain> plain_;
  std::array<View, kThreads> now_{};
  std::array<View, kThreads> later_{};   // what a fence will add to it
  std::array<View, kThreads> fenced_{};  // what relaxed stores release
  View full_{};                          // of all full fences so far
};

}  // namespace verbena::interleaving
