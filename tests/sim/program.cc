#include "tests/sim/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace verbena::sim {

using engine::Access;
using engine::Completion;
using engine::CompletionKind;
using engine::CompletionStatus;
using engine::PostResult;
using engine::QpState;
using engine::SendKind;

namespace {

constexpr std::array kKinds{
    SendKind::send, SendKind::send_immediate, SendKind::write,     SendKind::write_immediate,
    SendKind::read, SendKind::compare_swap,   SendKind::fetch_add, SendKind::atomic_write,
    SendKind::flush};

constexpr std::uint64_t kFirstReceive = 1'000'000;  // wr_id; those of sends begin with 0

packet::Immediate immediate_of(std::size_t op) {
  return {1, 2, static_cast<std::uint8_t>(op >> 8), static_cast<std::uint8_t>(op)};
}

std::vector<std::uint8_t> bytes_of(std::uint64_t word) {
  std::vector<std::uint8_t> out(sizeof word);
  std::memcpy(out.data(), &word, sizeof word);
  return out;
}

std::uint64_t after(const Op& op) {
  if (op.kind == SendKind::fetch_add) return op.original + op.operands.swap_or_add;
  return op.original == op.operands.compare ? op.operands.swap_or_add : op.original;
}

CompletionKind completion_of(SendKind kind) { return engine::info_of(kind).completion; }

}  // namespace

Program::Program(Chance& chance, Connection& connection, const ConnectOptions& options)
    : ops(1 + chance.pick(24)),
      c_{connection},
      qpn_a_{c_.a.qp->qpn},
      qpn_b_{c_.b.qp->qpn},
      receives_late_{chance.one_in(3)} {
  for (Op& op : ops) plan(chance, op, options);
  const unsigned access = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead |
                          Access::kRemoteAtomic | Access::kFlushGlobal;
  memory_a.expose(c_.a, access);
  memory_b.expose(c_.b, access);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    fill_in(chance, ops[i], options);
    if (!ops[i].takes_receive()) continue;
    ops[i].receive = receivers_.size();
    receivers_.push_back(i);
  }
  succeeded_.assign(ops.size(), false);
}

void Program::plan(Chance& chance, Op& op, const ConnectOptions& options) {
  op.kind = kKinds[chance.pick(kKinds.size())];
  op.signaled = chance.one_in(2);
  op.fence = chance.one_in(4);
  const std::uint32_t length = op.is_atomic() || op.kind == SendKind::atomic_write ? 8
                               : op.kind == SendKind::flush || chance.one_in(8)
                                   ? 0
                                   : chance.pick(3u * options.mtu + 2);
  op.here = memory_a.take(length);
  op.there = memory_b.take(length);
  const bool carries = op.kind != SendKind::read && op.kind != SendKind::flush && !op.is_atomic();
  op.inlined = carries && length <= options.max_inline && chance.one_in(2);
}

void Program::fill_in(Chance& chance, Op& op, const ConnectOptions& options) {
  const bool reads = op.kind == SendKind::read;
  Arena& source = reads ? memory_b : memory_a;
  Arena& target = reads ? memory_a : memory_b;
  op.rkey = memory_b.region.key;
  op.remote_address = memory_b.address_of(op.there);
  op.sges = memory_a.split(chance, op.here, 1 + chance.pick(options.sges));
  op.receive_sges = memory_b.split(chance, op.there, 1 + chance.pick(options.sges));
  if (op.is_atomic()) {
    op.original = chance.word();
    op.operands = {chance.one_in(2) ? op.original : ~op.original, chance.word()};
    std::memcpy(memory_b.at(op.there).data(), &op.original, sizeof op.original);
    return;
  }
  for (std::uint32_t i = 0; i < op.here.length; ++i) op.data.push_back(target.other_byte(chance));
  const auto from = source.at(reads ? op.there : op.here);
  std::copy(op.data.begin(), op.data.end(), from.begin());
}

void Program::post_receives() {
  while (!b_gone && receives_posted_ < receivers_.size()) {
    if (receives_late_ && !idle() && patience_-- > 0) return;
    patience_ = 5;
    const Op& op = ops[receivers_[receives_posted_]];
    const auto result =
        c_.b.receive({.wr_id = kFirstReceive + receives_posted_, .sges = op.receive_sges});
    if (result == PostResult::queue_full) return;
    ASSERT_EQ(result, PostResult::posted);
    ++receives_posted_;
  }
}

void Program::post_sends() {
  while (!a_gone && sends_posted_ < ops.size()) {
    const Op& op = ops[sends_posted_];
    const auto result = c_.a.send({.wr_id = sends_posted_,
                                   .kind = op.kind,
                                   .signaled = op.signaled,
                                   .fence = op.fence,
                                   .inlined = op.inlined,
                                   .immediate = immediate_of(sends_posted_),
                                   .remote_address = op.remote_address,
                                   .rkey = op.rkey,
                                   .sges = op.sges,
                                   .atomic = op.operands,
                                   .flush = {.what = {.global_visibility = true}, .length = 1},
                                   .xrc_srq = c_.b.srq != nullptr ? c_.b.srq->number : 0});
    if (result == PostResult::queue_full) return;
    ASSERT_EQ(result, PostResult::posted);
    ++sends_posted_;
  }
}

void Program::step() {
  const auto poll = [](End& end, std::vector<Completion>& into) {
    const auto more = end.poll();
    into.insert(into.end(), more.begin(), more.end());
  };
  if (poll_a) poll(c_.a, completions_a);
  if (poll_b) poll(c_.b, completions_b);
  post_receives();
  post_sends();
}

bool Program::idle() {
  return a_gone || (sends_posted_ == ops.size() && c_.a.qp->sq.head() == c_.a.qp->sq.tail());
}

bool Program::through() {
  if (testing::Test::HasFatalFailure()) return true;
  return idle();
}

void Program::check(const Outcome& outcome) {
  const std::size_t failed = check_sends(outcome);
  if (testing::Test::HasFatalFailure()) return;
  check_receives(outcome, failed);
  if (testing::Test::HasFatalFailure()) return;
  check_effects(outcome, failed);
  EXPECT_TRUE(memory_a.guards_intact()) << "A's memory was written where nothing was asked for";
  EXPECT_TRUE(memory_b.guards_intact()) << "B's memory was written where nothing was asked for";
}

std::size_t Program::check_sends(const Outcome& outcome) {
  std::size_t failed = ops.size();
  std::size_t next = 0;  // in completions_a
  const auto check = [&] {
    for (std::size_t i = 0; i < sends_posted_; ++i) {
      const bool told = next < completions_a.size() && completions_a[next].wr_id == i;
      if (!told) {
        // A silent end may have lost its tail; nothing else may be missing.
        if (outcome.a_silent && next == completions_a.size()) return;
        ASSERT_FALSE(ops[i].signaled) << "request " << i << " has no completion";
        ASSERT_EQ(failed, ops.size()) << "request " << i << " was not flushed";
        succeeded_[i] = true;
        continue;
      }
      const Completion& got = completions_a[next++];
      ASSERT_EQ(got.kind, completion_of(ops[i].kind));
      ASSERT_EQ(got.qpn, qpn_a_);
      if (failed != ops.size()) {
        ASSERT_EQ(got.status, CompletionStatus::flushed) << "request " << i;
      } else if (got.status == CompletionStatus::success) {
        ASSERT_TRUE(ops[i].signaled) << "request " << i << " asked for no completion";
        succeeded_[i] = true;
      } else {
        ASSERT_NE(std::find(outcome.errors.begin(), outcome.errors.end(), got.status),
                  outcome.errors.end())
            << "request " << i << " failed with status " << static_cast<int>(got.status);
        failed = i;
      }
    }
  };
  check();
  if (testing::Test::HasFatalFailure()) return failed;
  EXPECT_EQ(next, completions_a.size()) << "completions of requests that were never posted";
  if (outcome.culprit && sends_posted_ == ops.size() && !outcome.a_silent) {
    EXPECT_LE(failed, *outcome.culprit) << "the mistake was not noticed";
    if (outcome.exact) {
      EXPECT_EQ(failed, *outcome.culprit);
      const auto error =
          std::find_if(completions_a.begin(), completions_a.end(),
                       [&](const Completion& c) { return c.status != CompletionStatus::success; });
      if (error != completions_a.end()) {
        EXPECT_EQ(error->status, outcome.errors.front());
      }
    }
  }
  return failed;
}

void Program::check_completion_of(const Completion& got, std::size_t receive) {
  const std::size_t index = receivers_[receive];
  const Op& op = ops[index];
  ASSERT_EQ(got.kind, op.kind == SendKind::write_immediate ? CompletionKind::receive_write_immediate
                                                           : CompletionKind::receive);
  ASSERT_EQ(got.byte_count, op.here.length);
  ASSERT_EQ(got.has_immediate, op.kind != SendKind::send);
  if (got.has_immediate) {
    ASSERT_EQ(got.immediate, immediate_of(index));
  }
  const Effect effect = effect_there(op);
  ASSERT_TRUE(effect == Effect::whole || effect == Effect::open)
      << "receive " << receive << " completed before its bytes came";
}

void Program::check_receives(const Outcome& outcome, std::size_t failed) {
  bool over = false;
  std::size_t filled = 0;
  for (std::size_t i = 0; i < completions_b.size(); ++i) {
    const Completion& got = completions_b[i];
    ASSERT_EQ(got.wr_id, kFirstReceive + i) << "receives complete in the order of posting";
    ASSERT_LT(i, receives_posted_);
    ASSERT_EQ(got.qpn, qpn_b_);
    if (got.status == CompletionStatus::success) {
      ASSERT_FALSE(over) << "receive " << i << " succeeded after one that failed";
      ASSERT_LT(receivers_[i], sends_posted_);
      check_completion_of(got, i);
      ++filled;
    } else if (got.status == CompletionStatus::flushed) {
      over = true;
    } else {
      ASSERT_FALSE(over) << "receive " << i << " failed after another";
      ASSERT_NE(std::find(outcome.receive_errors.begin(), outcome.receive_errors.end(), got.status),
                outcome.receive_errors.end())
          << "receive " << i << " failed with status " << static_cast<int>(got.status);
      over = true;
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  if (outcome.b_silent) return;
  // What A was told of, B was told of.
  for (std::size_t i = 0; i < failed; ++i) {
    if (succeeded_[i] && ops[i].receive) {
      EXPECT_LT(*ops[i].receive, filled) << "request " << i;
    }
  }
  const bool flushed = c_.b.qp->state.load() == QpState::error && c_.b.srq == nullptr;
  if (flushed) {
    EXPECT_EQ(completions_b.size(), receives_posted_) << "receives were not flushed";
  }
}

Effect Program::effect_here(const Op& op) {
  const std::vector<std::uint8_t> before(op.here.length, memory_a.fill());
  if (op.is_atomic()) return memory_a.effect(op.here, before, bytes_of(op.original));
  if (op.kind == SendKind::read) return memory_a.effect(op.here, before, op.data);
  return Effect::open;
}

Effect Program::effect_there(const Op& op) {
  const std::vector<std::uint8_t> before(op.there.length, memory_b.fill());
  if (op.is_atomic()) {
    return memory_b.effect(op.there, bytes_of(op.original), bytes_of(after(op)));
  }
  if (op.kind == SendKind::read) return memory_b.effect(op.there, op.data, op.data);
  return memory_b.effect(op.there, before, op.data);
}

void Program::check_effects(const Outcome& outcome, std::size_t) {
  bool here_over = false;   // a request whose result has not come whole
  bool there_over = false;  // one that was not executed whole
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Effect here = effect_here(ops[i]);
    const Effect there = effect_there(ops[i]);
    ASSERT_NE(here, Effect::broken) << "wrong bytes at A, request " << i;
    ASSERT_NE(there, Effect::broken) << "wrong bytes at B, request " << i;
    const bool came = here == Effect::partial || here == Effect::whole;
    const bool done = there == Effect::partial || there == Effect::whole;
    if (succeeded_[i]) {
      ASSERT_TRUE(here == Effect::whole || here == Effect::open) << "request " << i;
      ASSERT_TRUE(there == Effect::whole || there == Effect::open) << "request " << i;
    }
    ASSERT_FALSE(came && here_over) << "the result of request " << i << " overtook another";
    ASSERT_FALSE(done && there_over) << "request " << i << " overtook another";
    if (i >= sends_posted_) {
      ASSERT_FALSE(came || done) << "request " << i << " was never posted";
    }
    if (outcome.culprit && i >= *outcome.culprit) {
      const bool tolerated = outcome.partial && i == *outcome.culprit;
      ASSERT_FALSE(came || (done && !tolerated)) << "request " << i << " was refused";
    }
    here_over = here_over || here == Effect::none || here == Effect::partial;
    there_over = there_over || there == Effect::none || there == Effect::partial;
  }
}

}  // namespace verbena::sim
