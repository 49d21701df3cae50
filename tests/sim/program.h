#pragma once

// A random program of send requests from A to B and receives at B, and the model of what may be
// seen of it. The model is one sentence: requests take effect at most once and in order, a prefix
// of them; completions tell of them in order, none is missing and none is told twice.

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/sim/arena.h"
#include "tests/sim/world.h"

namespace verbena::sim {

struct Op {
  engine::SendKind kind{};
  bool signaled = false;
  bool fence = false;
  bool inlined = false;
  Range here{};                        // at A
  Range there{};                       // at B
  std::vector<std::uint8_t> data{};    // what moves
  engine::AtomicOperands operands{};   // COMPARE_SWAP, FETCH_ADD
  std::uint64_t original = 0;          // what the word at B holds before
  std::optional<std::size_t> receive;  // which receive of B's it takes

  // As the requests will have it; a test may plant a mistake here.
  std::vector<engine::Sge> sges{};
  std::vector<engine::Sge> receive_sges{};
  Key rkey{};
  std::uint64_t remote_address = 0;

  [[nodiscard]] bool is_atomic() const {
    return kind == engine::SendKind::compare_swap || kind == engine::SendKind::fetch_add;
  }
  [[nodiscard]] bool takes_receive() const {
    return kind == engine::SendKind::send || kind == engine::SendKind::send_immediate ||
           kind == engine::SendKind::write_immediate;
  }
  /// It names memory at B.
  [[nodiscard]] bool remote() const {
    return kind != engine::SendKind::send && kind != engine::SendKind::send_immediate;
  }
};

/// How a program may end.
struct Outcome {
  /// Request that must fail, at the latest; it takes no effect, nor do those behind it.
  std::optional<std::size_t> culprit{};
  /// The culprit's pieces may have been filled in part (a receive that is too small).
  bool partial = false;
  /// What the first failure at A may say. Empty: nothing may fail.
  std::vector<engine::CompletionStatus> errors{};
  /// The network delivers everything in order, so the culprit fails with errors[0].
  bool exact = false;
  /// What the first receive that fails may say, beside "flushed".
  std::vector<engine::CompletionStatus> receive_errors{};
  bool a_silent = false;  // completions may be missing: the queue pair went, or its queue overran
  bool b_silent = false;
};

class Program {
 public:
  Program(Chance& chance, Connection& connection, const ConnectOptions& options);

  /// Posts what has room and polls. Call it as often as you like.
  void step();
  /// After step(): every send was posted and has ended, one way or the other.
  [[nodiscard]] bool through();
  /// Compares what was seen with what must be.
  void check(const Outcome& outcome);
  void check_all_done() { check({}); }

  std::vector<Op> ops;
  Arena memory_a{0xaa};
  Arena memory_b{0xbb};
  std::vector<engine::Completion> completions_a;
  std::vector<engine::Completion> completions_b;

  // The test's hold on either end.
  bool a_gone = false;  // don't touch the queue pair any more
  bool b_gone = false;
  bool poll_a = true;
  bool poll_b = true;

 private:
  void plan(Chance& chance, Op& op, const ConnectOptions& options);
  void fill_in(Chance& chance, Op& op, const ConnectOptions& options);
  [[nodiscard]] bool idle();
  void post_receives();
  void post_sends();
  /// Index of the first request that failed, ops.size() if none.
  [[nodiscard]] std::size_t check_sends(const Outcome& outcome);
  void check_receives(const Outcome& outcome, std::size_t failed);
  void check_effects(const Outcome& outcome, std::size_t failed);
  void check_completion_of(const engine::Completion& c, std::size_t receive);
  [[nodiscard]] Effect effect_here(const Op& op);
  [[nodiscard]] Effect effect_there(const Op& op);

  Connection& c_;
  Qpn qpn_a_;
  Qpn qpn_b_;
  std::vector<std::size_t> receivers_;  // op of each receive
  std::size_t sends_posted_ = 0;
  std::size_t receives_posted_ = 0;
  bool receives_late_ = false;
  std::uint32_t patience_ = 0;  // steps until the next late receive
  std::vector<bool> succeeded_;
};

}  // namespace verbena::sim
