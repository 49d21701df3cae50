#pragma once

// Runs two threads of a program in every order that makes a difference, with every value that each
// load may find. The threads are fibers that stop before each access to shared memory; an
// execution is a row of choices, and the next one differs in the last choice that has another
// value. Two orders of accesses that don't touch each other are one (sleep sets).

#include <ucontext.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/interleaving/memory.h"

namespace verbena::interleaving {

/// What a thread will do next.
struct Access {
  enum class Kind : std::uint8_t { load, store, fence, ring, wait, end };
  Kind kind = Kind::end;
  const void* address = nullptr;

  [[nodiscard]] bool depends_on(const Access& other) const;
  [[nodiscard]] std::string text() const;
};

/// What went wrong, and the way there.
struct Finding {
  std::string what;
  std::vector<std::string> steps;
};

class Explorer {
 public:
  struct Program {
    std::function<void()> prepare;  // all of it before the threads begin
    std::array<std::function<void()>, kThreads> threads;
    std::function<void()> check;  // when both are through
  };

  explicit Explorer(const Weakness& weakness) : weakness_{weakness} {}
  /// Until something goes wrong, or everything was seen.
  [[nodiscard]] std::optional<Finding> explore(const Program& program);
  [[nodiscard]] std::uint64_t executions() const { return executions_; }

  // For the threads. During prepare() and check() the accesses are thread 0's, one after another.
  static Explorer& current();
  /// During prepare(): whose accesses follow.
  void be(std::size_t thread) { running_ = thread; }
  std::uint64_t load(const void* address, std::memory_order order);
  void store(const void* address, std::uint64_t bits, std::memory_order order);
  void fence();
  void read(const void* place);
  void write(const void* place);
  void ring(std::size_t bell);
  /// Until the bell of this thread is rung, since the last time that it was heard.
  void wait();
  void fail(const std::string& what);
  [[nodiscard]] std::uint64_t rings(std::size_t bell) const { return rings_[bell]; }

 private:
  struct Fiber {
    ucontext_t context{};
    std::vector<std::uint8_t> stack;
    Access next{};
    bool finished = false;
  };
  /// A choice, and what was tried of it.
  struct Choice {
    std::size_t chosen = 0;
    std::size_t count = 0;
    bool thread = false;      // of the thread that goes on, not of a value
    std::uint8_t asleep = 0;  // threads that needn't be tried here: one bit each
    std::uint8_t tried = 0;
  };

  void run(const Program& program);
  void begin(std::size_t thread, const std::function<void()>& body);
  [[nodiscard]] bool step();
  /// The thread that goes on. nullopt: none can, or none makes a difference.
  [[nodiscard]] std::optional<std::size_t> choose_thread();
  [[nodiscard]] std::size_t choose_value(std::size_t count);
  [[nodiscard]] bool next_execution();
  void stop_before(Access access);
  [[nodiscard]] bool can_go_on(std::size_t thread) const;
  [[nodiscard]] std::uint8_t asleep_after(const Choice& choice) const;

  Weakness weakness_;
  std::uint64_t executions_ = 0;
  std::vector<Choice> choices_;
  std::size_t depth_ = 0;
  std::uint8_t asleep_ = 0;

  std::optional<Memory> memory_;
  ucontext_t scheduler_{};
  std::array<Fiber, kThreads> fibers_;
  std::size_t running_ = 0;
  bool exploring_ = false;
  std::array<std::uint64_t, kThreads> rings_{};
  std::array<bool, kThreads> rung_{};
  std::vector<std::string> steps_;
  std::optional<Finding> finding_;
};

}  // namespace verbena::interleaving
