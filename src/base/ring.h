#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace verbena {

/// A queue that takes from both ends, in one block that grows by doubling. Unlike std::deque it
/// has no memory while nothing was ever put in: idle queue pairs have many.
template <typename T>
class Ring {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] T& operator[](std::size_t i) { return slots_[place(i)]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return slots_[place(i)]; }
  [[nodiscard]] T& front() { return (*this)[0]; }
  [[nodiscard]] const T& front() const { return (*this)[0]; }
  [[nodiscard]] T& back() { return (*this)[size_ - 1]; }
  [[nodiscard]] const T& back() const { return (*this)[size_ - 1]; }

  /// The next push_back() needs no memory.
  void make_room() {
    if (size_ == slots_.size()) grow();
  }
  void push_back(T value) {
    make_room();
    slots_[place(size_)] = std::move(value);
    ++size_;
  }
  void pop_front() {
    first_ = place(1);
    --size_;
  }
  void pop_back() { --size_; }
  void clear() { first_ = size_ = 0; }

  /// Keeps the others in order.
  template <typename Predicate>
  void remove_if(Predicate goes) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (goes((*this)[i])) continue;
      if (kept != i) (*this)[kept] = std::move((*this)[i]);
      ++kept;
    }
    size_ = kept;
  }
  template <typename Predicate>
  [[nodiscard]] std::size_t count_if(Predicate counts) const {
    std::size_t n = 0;
    for (std::size_t i = 0; i < size_; ++i) n += counts((*this)[i]) ? 1 : 0;
    return n;
  }
  /// nullptr: none such.
  template <typename Predicate>
  [[nodiscard]] const T* find_if(Predicate wanted) const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (wanted((*this)[i])) return &(*this)[i];
    }
    return nullptr;
  }

 private:
  /// The number of slots is a power of two.
  [[nodiscard]] std::size_t place(std::size_t i) const {
    return (first_ + i) & (slots_.size() - 1);
  }
  void grow() {
    std::vector<T> larger(slots_.empty() ? 4 : 2 * slots_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    slots_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> slots_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace verbena
