#pragma once

// Messages through a ring of shared memory, in pieces, so that both ends copy at the same time.

#include "bare_loop.h"

namespace limits {

/// Memory with a descriptor, for copies by system calls, and mapped, for copies without.
struct File {
  explicit File(std::size_t size) : fd{memfd_create("bench", MFD_CLOEXEC)} {
    require(fd >= 0 && ftruncate(fd, static_cast<off_t>(size)) == 0, "memfd_create");
    void* const memory =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    require(memory != MAP_FAILED, "mmap");
    mapped = static_cast<std::byte*>(memory);
  }
  void write(std::size_t at, const std::byte* from, std::size_t size) const {
    require(pwrite(fd, from, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size), "pwrite");
  }
  void read(std::size_t at, std::byte* to, std::size_t size) const {
    require(pread(fd, to, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size), "pread");
  }
  int fd;
  std::byte* mapped = nullptr;
};

/// How a piece gets from the program into the ring, at `at`, and out of it.
struct RingCopies {
  std::function<void(std::size_t at, const std::byte* from, std::size_t size)> in;
  std::function<void(std::size_t at, std::byte* to, std::size_t size)> out;
};

/// Places of pieces in a ring of `options.ring` bytes. None goes across the end.
class Pieces {
 public:
  explicit Pieces(const Options& options) : options_{options} {}
  [[nodiscard]] std::uint64_t capacity() const { return options_.ring / options_.piece; }
  [[nodiscard]] std::size_t place(std::uint64_t number) const {
    return number % capacity() * options_.piece;
  }
  /// Calls `piece(offset in the message, bytes)` for each piece of a message.
  template <typename Piece>
  void each(Piece&& piece) const {
    for (std::size_t at = 0; at < options_.size; at += options_.piece) {
      piece(at, std::min(options_.piece, options_.size - at));
    }
  }

 private:
  const Options& options_;
};

/// Runs both ends, and prints what the receiver got.
inline void measure_ring(const Options& options, const RingCopies& copies) {
  const Pieces pieces{options};
  auto& counters = shared<Counters>();
  Source source{options, 1};
  const Child sender{[&] {
    pin(options.first_core);
    std::uint64_t published = 0;
    for (;;) {
      const Message message = source.next();
      pieces.each([&](std::size_t at, std::size_t size) {
        while (published - counters.released.load(std::memory_order_acquire) == pieces.capacity()) {
        }
        copies.in(pieces.place(published), message.bytes + at, size);
        counters.published.store(++published, std::memory_order_release);
      });
    }
  }};
  pin(options.second_core);
  std::uint64_t released = 0;
  print_stream(options, source, [&](std::byte* bytes, std::uint64_t) {
    pieces.each([&](std::size_t at, std::size_t size) {
      while (counters.published.load(std::memory_order_acquire) == released) {
      }
      copies.out(pieces.place(released), bytes + at, size);
      counters.released.store(++released, std::memory_order_release);
    });
  });
}

}  // namespace limits
