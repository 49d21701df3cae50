#pragma once

// A loop that brings messages from one process to another, and nothing else: no protocol, no check,
// both ends spinning. The receiver's bytes in a second are the limit for a transport of this kind.

#include <limits>

#include "limits.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace limits {

/// Counters that one end writes and the other one looks at. They never wrap.
struct Counters {
  alignas(128) std::atomic<std::uint64_t> published{0};
  alignas(128) std::atomic<std::uint64_t> released{0};
};

/// A message, and the number of messages before it.
struct Message {
  std::byte* bytes;
  std::uint64_t number;
};

/// The buffers of a program that sends: a message's first and last byte say which one it is.
/// `count` buffers in turn.
class Source {
 public:
  Source(const Options& options, std::size_t count)
      : options_{options}, count_{count}, bytes_{pages(options.size * count, MAP_PRIVATE)} {
    std::memset(bytes_, kUntouched, options.size * count);
  }
  /// The next one, rewritten if the options say so.
  Message next() {
    const Message message{buffer(number_), number_};
    if (options_.rewrite) std::memset(message.bytes, content(number_), options_.size);
    ++number_;
    return message;
  }
  [[nodiscard]] std::byte* buffer(std::uint64_t number) const {
    return bytes_ + number % count_ * options_.size;
  }
  /// Ends the program if these aren't the bytes of the message.
  void check(const std::byte* bytes, std::uint64_t number) const {
    const auto wanted = static_cast<std::byte>(options_.rewrite ? content(number) : kUntouched);
    if (bytes[0] == wanted && bytes[options_.size - 1] == wanted) return;
    fmt::print(stderr, "{}: message {} has other bytes than were sent\n",
               program_invocation_short_name, number);
    std::exit(1);
  }

 private:
  static constexpr int kUntouched = 1;
  static int content(std::uint64_t number) { return static_cast<int>(number % 255) + 1; }

  const Options& options_;
  std::size_t count_;
  std::byte* bytes_;
  std::uint64_t number_ = 0;
};

/// Receives for the time of the options, after a tenth of it to warm up. `receive` waits for
/// message `number` and returns when its bytes are in `bytes`.
inline void print_stream(
    const Options& options, const Source& source,
    const std::function<void(std::byte* bytes, std::uint64_t number)>& receive) {
  std::byte* const bytes = pages(options.size, MAP_PRIVATE);
  std::uint64_t number = 0;
  const auto messages_within = [&](double seconds) {
    const auto first = number;
    const auto start = Clock::now();
    while (seconds_since(start) < seconds) {
      receive(bytes, number);
      source.check(bytes, number++);
    }
    return static_cast<double>(number - first) / seconds_since(start);
  };
  messages_within(options.seconds / 10);
  const double rate = messages_within(options.seconds);
  print({{"gb_per_s", rate * static_cast<double>(options.size) / 1e9}});
}

/// Copies without bringing the destination into the cache. As bare as memcpy: no fence.
inline void copy_non_temporal(std::byte* to, const std::byte* from, std::size_t size) {
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64;
  if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    for (; size >= kLine; size -= kLine, to += kLine, from += kLine) {
      const auto* const in = reinterpret_cast<const __m128i*>(from);
      auto* const out = reinterpret_cast<__m128i*>(to);
      const __m128i a = _mm_loadu_si128(in);
      const __m128i b = _mm_loadu_si128(in + 1);
      const __m128i c = _mm_loadu_si128(in + 2);
      const __m128i d = _mm_loadu_si128(in + 3);
      _mm_stream_si128(out, a);
      _mm_stream_si128(out + 1, b);
      _mm_stream_si128(out + 2, c);
      _mm_stream_si128(out + 3, d);
    }
  }
#endif
  std::memcpy(to, from, size);
}

/// Before what was copied is published.
inline void fence_non_temporal() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace limits
