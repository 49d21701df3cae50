// Which bytes each instruction of a copy loads or stores: a child copies, and its parent looks
// after every single step.

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <vector>

#include "memory/guarded_copy.h"

namespace verbena::memory {
namespace {

struct Shared {
  volatile bool copies;
  alignas(64) std::array<std::uint8_t, 512> program;
  alignas(64) std::array<std::uint8_t, 512> frame;
};

struct Where {
  std::size_t size, program, frame;  // offsets into the arrays
};

std::vector<Where> all_places() {
  std::vector<Where> all;
  std::vector<std::size_t> sizes{31, 32, 33, 40, 63, 64, 65, 66, 68, 72, 100, 129, 200};
  for (std::size_t size = 1; size <= 24; ++size) sizes.push_back(size);
  for (const std::size_t size : sizes) {
    for (std::size_t offset = 0; offset < 9; ++offset) {
      all.push_back({size, 128 + offset, 64});
      if (offset % 8 < 3) all.push_back({size, 128 + offset, 64 + 5});
    }
  }
  return all;
}

class GuardedCopySteps : public testing::Test {
 protected:
  void SetUp() override {
    if (!kHasGuardedCopy) GTEST_SKIP() << "no copy loop for this machine";
    shared_ = static_cast<Shared*>(
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(shared_, MAP_FAILED);
  }
  void TearDown() override {
    finish();
    if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
  }

  /// A child makes a copy for each place, between zeros and ones, and stops before each.
  template <typename F>
  void start(F copy) {
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ != 0) return;
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    for (const Where& w : all_places()) {
      shared_->program.fill(0);
      shared_->frame.fill(1);
      raise(SIGSTOP);
      shared_->copies = true;
      if (!copy(&shared_->program[w.program], &shared_->frame[w.frame], w.size)) _exit(1);
      shared_->copies = false;
    }
    _exit(0);
  }
  void run_to_stop() const {
    ASSERT_TRUE(!ran_ || ptrace(PTRACE_CONT, child_, nullptr, nullptr) == 0);
    int status = 0;
    ASSERT_EQ(waitpid(child_, &status, 0), child_);
    ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) << status;
  }
  /// Calls `look` after each instruction of the copy.
  template <typename F>
  void step_through(F&& look) {
    run_to_stop();
    ran_ = true;
    for (bool began = false; !began || shared_->copies; began = began || shared_->copies) {
      int status = 0;
      ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, child_, nullptr, nullptr), 0);
      ASSERT_EQ(waitpid(child_, &status, 0), child_);
      ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP) << status;
      if (shared_->copies) look();
    }
  }

  /// The instruction that comes next.
  [[nodiscard]] std::uintptr_t pc() const {
    user_regs_struct registers{};
    iovec into{&registers, sizeof registers};
    EXPECT_EQ(ptrace(PTRACE_GETREGSET, child_, NT_PRSTATUS, &into), 0);
#if defined(__x86_64__)
    return registers.rip;
#elif defined(__aarch64__)
    return registers.pc;
#else
    return 0;
#endif
  }
  void finish() {
    if (child_ > 0 && kill(child_, SIGKILL) == 0) waitpid(child_, nullptr, 0);
    child_ = 0;
    ran_ = false;
  }

  Shared* shared_ = nullptr;
  pid_t child_ = 0;
  bool ran_ = false;
};

/// `piece_of[i]`: which load or store the byte at i belongs to. All aligned words of 8, 4 and 2
/// bytes within the range belong to one.
template <typename T>
testing::AssertionResult words_are_whole(const Where& w, const std::array<T, 512>& piece_of) {
  for (const std::size_t unit : {8u, 4u, 2u}) {
    std::size_t at = (w.program + unit - 1) / unit * unit;
    for (; at + unit <= w.program + w.size; at += unit) {
      for (std::size_t i = at; i < at + unit; ++i) {
        if (piece_of[i] == piece_of[at]) continue;
        return testing::AssertionFailure() << "the " << unit << " bytes at " << at << " of "
                                           << w.size << " bytes at " << w.program << " are torn";
      }
    }
  }
  return testing::AssertionSuccess();
}

std::size_t last_unit(const Where& w) {
  std::size_t unit = 8;
  while (unit > w.size || (w.program + w.size) % unit != 0) unit /= 2;
  return unit;
}

TEST_F(GuardedCopySteps, StoreAscendingWholeWordsAndTheLastUnitAlone) {
  const std::array<std::uint8_t, 512>& program = shared_->program;
  start(
      [](void* to, const void* from, std::size_t size) { return guarded_scatter(to, from, size); });
  for (const Where& w : all_places()) {
    std::array<int, 512> store_of{};
    int stores = 0;
    std::size_t done = w.program;
    std::size_t last = 0;
    step_through([&] {
      const std::size_t begin = done;
      while (program[done] != 0) ++done;
      ASSERT_TRUE(std::all_of(&program[done], program.end(), [](auto x) { return x == 0; }))
          << "not ascending: " << w.size << " bytes at " << w.program;
      if (done == begin) return;
      std::fill(&store_of[begin], &store_of[done], ++stores);
      last = done - begin;
    });
    if (HasFatalFailure()) return;
    ASSERT_EQ(done, w.program + w.size);
    ASSERT_TRUE(words_are_whole(w, store_of));
    ASSERT_EQ(last, last_unit(w)) << w.size << " bytes at " << w.program;
  }
}

TEST_F(GuardedCopySteps, LoadWholeWords) {
  start([](void* program, void* frame, std::size_t size) {
    return guarded_gather(frame, program, size);
  });
  for (const Where& w : all_places()) {
    std::uint8_t now = 0;  // other bytes after each instruction
    step_through([&] { shared_->program.fill(++now); });
    if (HasFatalFailure()) return;
    ASSERT_LT(now, 255) << "as many instructions as there are values";
    std::array<std::uint8_t, 512> load_of{};
    std::copy_n(&shared_->frame[w.frame], w.size, &load_of[w.program]);
    ASSERT_TRUE(std::is_sorted(&load_of[w.program], &load_of[w.program + w.size]));
    ASSERT_TRUE(words_are_whole(w, load_of));
  }
}

TEST_F(GuardedCopySteps, LandBehindTheirInstructions) {
  start(
      [](void* to, const void* from, std::size_t size) { return guarded_scatter(to, from, size); });
  std::uintptr_t at = 0;
  std::uintptr_t stores = 0;
  step_through([&] {
    if (shared_->program[all_places()[0].program] != 0 && stores == 0) stores = at;
    at = pc();
  });
  const std::uintptr_t landing = landing_of_guarded_copy(stores);
  ASSERT_GT(landing, stores);
  for (at = stores; at < landing; ++at) ASSERT_EQ(landing_of_guarded_copy(at), landing);
  EXPECT_EQ(landing_of_guarded_copy(landing), 0u) << "a fault there would be one for ever";
}

}  // namespace
}  // namespace verbena::memory
