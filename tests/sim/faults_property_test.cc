// Random programs with one mistake in them, or one misfortune in the middle: exactly the right
// status, everything before it done, nothing behind it, as many completions as posts.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "engine/queue_pair_timers.h"
#include "tests/sim/program.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Attr;
using engine::CompletionStatus;
using engine::EventKind;
using engine::QpState;
using engine::QpType;
using engine::SendKind;

constexpr std::uint64_t kSeeds = 2000;

/// A program between two ends, over a network that `seed` gives.
struct Scene {
  Scene(std::uint64_t seed, bool faithful)
      : chance{seed},
        net{seed + 1, faithful ? faithful_link(chance) : random_link(chance)},
        options{make_options(chance)},
        c{net, options},
        program{chance, c, options} {}

  static ConnectOptions make_options(Chance& chance) {
    ConnectOptions o;
    o.mtu = static_cast<std::uint16_t>(256u << chance.pick(3));
    o.timeout = 12;
    o.rd_atomic = static_cast<std::uint8_t>(1 + chance.pick(8));
    o.depth = 1 + chance.pick(32);
    o.psn_a = Psn{0xff'fff0 + chance.pick(32)};
    o.psn_b = Psn{0xff'fff0 + chance.pick(32)};
    switch (chance.pick(4)) {
      case 0:
        o.type_a = QpType::xrc_send;
        o.type_b = QpType::xrc_receive;
        break;
      case 1:
        o.srq_b = true;
        break;
      default:
        break;
    }
    return o;
  }

  /// Until everything is through; false: something hangs.
  bool run(const std::function<void()>& each_step = [] {}) {
    return net.run_until(
        [&] {
          program.step();
          each_step();
          return program.through();
        },
        120s);
  }
  /// Whatever is still under way.
  void settle(Duration time = 1s) {
    (void)net.run_until(
        [&] {
          program.step();
          return testing::Test::HasFatalFailure();
        },
        time);
  }

  void set_state(End& end, QpState state, unsigned more = 0) {
    engine::QpAttributes to;
    to.state = state;
    to.notify_drained = true;
    ASSERT_TRUE(end.node->rnic().modify_qp(*end.qp, to, Attr::kState | more).ok());
  }

  [[nodiscard]] static std::size_t count(const End& end, EventKind kind) {
    return static_cast<std::size_t>(
        std::count_if(end.node->events.begin(), end.node->events.end(),
                      [&](const engine::Event& e) { return e.kind == kind; }));
  }

  /// Everything can go away, and nothing is left in use.
  void dismantle() {
    for (End* end : {&c.a, &c.b}) {
      const bool gone = end == &c.a ? program.a_gone : program.b_gone;
      engine::Rnic& rnic = end->node->rnic();
      if (!gone) end->node->destroy(*end->qp);
      if (end->srq != nullptr) {
        EXPECT_TRUE(rnic.destroy_srq(*end->srq).ok());
      }
      const Key key = (end == &c.a ? program.memory_a : program.memory_b).region.key;
      (void)rnic.deregister_memory(key);  // some tests did so before
      for (const Key extra : extra_keys) (void)rnic.deregister_memory(extra);
      EXPECT_TRUE(rnic.dealloc_pd(end->pd).ok());
      EXPECT_EQ(end->cq->users, 0u);
    }
    (void)net.run_until([] { return false; }, 1s);  // packets to nobody
  }

  Chance chance;
  std::vector<Key> extra_keys;  // of B's
  World net;
  ConnectOptions options;
  Connection c;
  Program program;
};

// ---- mistakes of the program

/// A mistake in request `at`; false: there is none of this kind to make in it.
struct Mistake {
  const char* name;
  bool (*plant)(Scene&, Op&);
  CompletionStatus at_a;
  std::optional<CompletionStatus> at_b{};  // of the receive
  std::optional<EventKind> event{};        // at B
  bool partial = false;
};

/// Bytes of B's that the peer may not touch at all.
bool forbid(Scene& s, Op& op) {
  if (!op.remote() || op.there.length == 0) return false;
  const auto at = s.program.memory_b.at(op.there);
  op.rkey = s.c.b.node->expose(s.c.b.pd, at, Access::kLocalWrite).key;
  s.extra_keys.push_back(op.rkey);
  return true;
}

bool use_bad_key(Scene& s, Op& op) {
  if (!op.remote() || op.there.length == 0) return false;
  op.rkey = Key{op.rkey.value() ^ (1u << s.chance.pick(32))};
  return true;
}

bool reach_beyond(Scene& s, Op& op) {
  if (!op.remote() || op.there.length == 0) return false;
  const auto& region = s.program.memory_b.region;
  // A long READ is asked for in pieces, and those that are within bounds may be answered.
  const bool below = op.kind == SendKind::read || s.chance.one_in(2);
  op.remote_address =
      below ? region.iova - 8 : region.iova + region.length - (op.there.length - 1) / 8 * 8;
  return true;
}

bool misalign(Scene&, Op& op) {
  if (!op.is_atomic() && op.kind != SendKind::atomic_write) return false;
  op.remote_address += 4;
  return true;
}

bool shorten_receive(Scene&, Op& op) {
  if (op.kind != SendKind::send && op.kind != SendKind::send_immediate) return false;
  const auto longest = std::max_element(op.receive_sges.begin(), op.receive_sges.end(),
                                        [](auto& x, auto& y) { return x.length < y.length; });
  if (longest->length == 0) return false;
  --longest->length;
  // The rest of the message would go elsewhere: leave nothing behind it to go to.
  op.receive_sges.erase(longest + 1, op.receive_sges.end());
  return true;
}

bool receive_with_bad_key(Scene& s, Op& op) {
  if (op.kind != SendKind::send && op.kind != SendKind::send_immediate) return false;
  if (op.there.length == 0) return false;
  for (auto& sge : op.receive_sges) sge.lkey = Key{sge.lkey.value() ^ (1u << s.chance.pick(32))};
  return true;
}

bool send_with_bad_key(Scene& s, Op& op) {
  if (op.inlined || op.here.length == 0 || op.kind == SendKind::flush) return false;
  for (auto& sge : op.sges) sge.lkey = Key{sge.lkey.value() ^ (1u << s.chance.pick(32))};
  return true;
}

constexpr std::array kMistakes{
    Mistake{"wrong rkey",
            use_bad_key,
            CompletionStatus::remote_access_error,
            {},
            EventKind::qp_access_error},
    Mistake{"out of bounds",
            reach_beyond,
            CompletionStatus::remote_access_error,
            {},
            EventKind::qp_access_error},
    Mistake{
        "no access", forbid, CompletionStatus::remote_access_error, {}, EventKind::qp_access_error},
    Mistake{"unaligned word",
            misalign,
            CompletionStatus::remote_invalid_request,
            {},
            EventKind::qp_request_error},
    Mistake{"receive too small", shorten_receive, CompletionStatus::remote_invalid_request,
            CompletionStatus::local_length_error, EventKind::qp_request_error, true},
    Mistake{"wrong lkey at the receiver",
            receive_with_bad_key,
            CompletionStatus::remote_operation_error,
            CompletionStatus::local_protection_error,
            {}},
    Mistake{"wrong lkey at the sender",
            send_with_bad_key,
            CompletionStatus::local_protection_error,
            {},
            {}},
};

/// Puts the mistake into one of the requests where it is possible.
std::optional<std::size_t> plant(Scene& s, const Mistake& mistake) {
  const std::size_t n = s.program.ops.size();
  const std::size_t first = s.chance.pick(static_cast<std::uint32_t>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = (first + i) % n;
    if (mistake.plant(s, s.program.ops[at])) return at;
  }
  return std::nullopt;
}

void make_mistake(std::uint64_t seed, bool faithful) {
  Scene s{seed, faithful};
  const Mistake& mistake = kMistakes[s.chance.pick(kMistakes.size())];
  SCOPED_TRACE(mistake.name);
  Outcome outcome{.culprit = plant(s, mistake),
                  .partial = mistake.partial,
                  .errors = {mistake.at_a},
                  .exact = faithful};
  if (!outcome.culprit) outcome.errors.clear();
  // B refuses once and is gone: a refusal that is lost, or comes too early, is not repeated.
  const bool local = mistake.at_a == CompletionStatus::local_protection_error;
  if (!faithful && !local) outcome.errors.push_back(CompletionStatus::retry_exceeded);
  if (mistake.at_b) outcome.receive_errors = {*mistake.at_b};

  ASSERT_TRUE(s.run()) << "stuck";
  s.settle();
  s.program.check(outcome);
  if (outcome.culprit && !local && faithful) {
    EXPECT_EQ(s.c.b.qp->state.load(), QpState::error);
    EXPECT_EQ(s.c.a.qp->state.load(), QpState::error);
    const std::size_t told = Scene::count(s.c.b, EventKind::qp_access_error) +
                             Scene::count(s.c.b, EventKind::qp_request_error);
    EXPECT_EQ(told, mistake.event ? 1u : 0u);
    if (mistake.event) {
      EXPECT_EQ(Scene::count(s.c.b, *mistake.event), 1u);
    }
  }
  s.dismantle();
}

TEST(MistakesProperty, AreToldExactly) {
  each_seed(kSeeds, [](std::uint64_t seed) { make_mistake(seed, true); });
}

TEST(MistakesProperty, AreToldWhateverTheNetworkDoes) {
  each_seed(kSeeds, [](std::uint64_t seed) { make_mistake(seed, false); });
}

TEST(MistakesProperty, QueuePairThatDoesNotPermitIsNotServed) {
  each_seed(kSeeds, [](std::uint64_t seed) {
    Scene s{seed, true};
    const unsigned granted = s.chance.pick(8) << 1;  // remote write, read, atomic
    ASSERT_TRUE(s.c.b.node->rnic().modify_qp(*s.c.b.qp, {.access = granted}, Attr::kAccess).ok());
    const auto needed = [](const Op& op) {
      if (op.is_atomic()) return Access::kRemoteAtomic;
      if (op.kind == SendKind::read) return Access::kRemoteRead;
      return op.remote() && op.kind != SendKind::flush ? Access::kRemoteWrite : 0u;
    };
    Outcome outcome{.exact = true};
    const auto& ops = s.program.ops;
    const auto refused = std::find_if(ops.begin(), ops.end(),
                                      [&](const Op& op) { return (needed(op) & ~granted) != 0; });
    if (refused != ops.end()) {
      outcome.culprit = static_cast<std::size_t>(refused - ops.begin());
      // A WRITE with immediate: the receive is still there.
      outcome.errors = {CompletionStatus::remote_invalid_request};
    }
    ASSERT_TRUE(s.run()) << "stuck";
    s.settle();
    s.program.check(outcome);
    EXPECT_EQ(Scene::count(s.c.b, EventKind::qp_request_error), refused == ops.end() ? 0u : 1u);
  });
}

// ---- misfortunes in the middle

struct Misfortune {
  const char* name;
  void (*strike)(Scene&);
  std::vector<CompletionStatus> at_a;
  std::vector<CompletionStatus> at_b;
  bool a_silent = false;
  bool b_silent = false;
};

void kill_peer(Scene& s) { s.c.b.node->dead = true; }
void stop_a(Scene& s) { s.set_state(s.c.a, QpState::error); }
void stop_b(Scene& s) { s.set_state(s.c.b, QpState::error); }
void destroy_a(Scene& s) {
  s.c.a.node->destroy(*s.c.a.qp);
  s.program.a_gone = true;
}
void destroy_b(Scene& s) {
  s.c.b.node->destroy(*s.c.b.qp);
  s.program.b_gone = true;
}
void unmap_a(Scene& s) { s.c.a.node->unmap(s.program.memory_a.bytes()); }
void unmap_b(Scene& s) { s.c.b.node->unmap(s.program.memory_b.bytes()); }
void deregister_a(Scene& s) {
  ASSERT_TRUE(s.c.a.node->rnic().deregister_memory(s.program.memory_a.region.key).ok());
}
void deregister_b(Scene& s) {
  ASSERT_TRUE(s.c.b.node->rnic().deregister_memory(s.program.memory_b.region.key).ok());
}

const std::array kMisfortunes{
    Misfortune{"the peer dies", kill_peer, {CompletionStatus::retry_exceeded}, {}},
    Misfortune{"A to ERR", stop_a, {CompletionStatus::flushed}, {}},
    Misfortune{"B to ERR", stop_b, {CompletionStatus::retry_exceeded}, {}},
    Misfortune{"A destroyed", destroy_a, {}, {}, true},
    Misfortune{"B destroyed", destroy_b, {CompletionStatus::retry_exceeded}, {}, false, true},
    Misfortune{"A's memory unmapped", unmap_a, {CompletionStatus::local_protection_error}, {}},
    Misfortune{"B's memory unmapped",
               unmap_b,
               {CompletionStatus::remote_access_error, CompletionStatus::remote_operation_error,
                CompletionStatus::retry_exceeded},
               {CompletionStatus::local_protection_error}},
    Misfortune{
        "A's memory deregistered", deregister_a, {CompletionStatus::local_protection_error}, {}},
    Misfortune{"B's memory deregistered",
               deregister_b,
               {CompletionStatus::remote_access_error, CompletionStatus::remote_operation_error,
                CompletionStatus::retry_exceeded},
               {CompletionStatus::local_protection_error}},
};

/// Calls `act` once, after a random number of steps.
class Later {
 public:
  Later(Chance& chance, std::function<void()> act)
      : steps_{chance.pick(1u << (1 + chance.pick(8)))}, act_{std::move(act)} {}
  void operator()() {
    if (act_ && steps_-- == 0) std::exchange(act_, nullptr)();
  }

 private:
  std::uint32_t steps_;
  std::function<void()> act_;
};

TEST(MisfortunesProperty, LeaveAPrefixDoneAndEverythingToldOnce) {
  each_seed(2 * kSeeds, [](std::uint64_t seed) {
    Scene s{seed, false};
    const Misfortune& what = kMisfortunes[s.chance.pick(kMisfortunes.size())];
    SCOPED_TRACE(what.name);
    Later strike{s.chance, [&] { what.strike(s); }};
    ASSERT_TRUE(s.run([&] { strike(); })) << "stuck";
    s.settle();
    s.program.check({.errors = what.at_a,
                     .receive_errors = what.at_b,
                     .a_silent = what.a_silent,
                     .b_silent = what.b_silent});
    s.dismantle();
  });
}

/// To RESET and back to RTS with other sequence numbers, while packets are under way; then a
/// second program runs as if nothing had been.
TEST(MisfortunesProperty, ReconnectedQueuePairsStartAfresh) {
  each_seed(kSeeds, [](std::uint64_t seed) {
    Scene s{seed, false};
    bool struck = false;
    Later strike{s.chance, [&] {
                   struck = true;
                   s.program.a_gone = s.program.b_gone = true;  // nothing is posted any more
                   s.program.step();                            // polls
                   for (End* end : {&s.c.a, &s.c.b}) {
                     if (s.chance.one_in(2)) s.set_state(*end, QpState::error);
                     s.set_state(*end, QpState::reset);
                   }
                 }};
    ASSERT_TRUE(s.run([&] { strike(); }) || struck) << "stuck";
    // What was flushed before the reset is told; what was not is gone without a word.
    s.program.step();
    s.program.check({.errors = {CompletionStatus::flushed}, .a_silent = true, .b_silent = true});
    if (testing::Test::HasFailure()) return;
    if (!struck) {
      for (End* end : {&s.c.a, &s.c.b}) s.set_state(*end, QpState::reset);
    }
    if (s.c.b.srq != nullptr) {  // the shared queue keeps its receives
      s.c.b.node->destroy(*s.c.b.qp);
      s.c.a.node->destroy(*s.c.a.qp);
      return;
    }
    const Psn psn_a{s.options.psn_a.value() + (1u << 22) + s.chance.pick(1u << 20)};
    const Psn psn_b{s.options.psn_b.value() + (1u << 22) + s.chance.pick(1u << 20)};
    connect(s.c.a, s.c.b, s.options, psn_a, psn_b);
    connect(s.c.b, s.c.a, s.options, psn_b, psn_a);
    Program again{s.chance, s.c, s.options};
    ASSERT_TRUE(s.net.run_until(
        [&] {
          again.step();
          return again.through();
        },
        120s))
        << "stuck after reconnecting";
    again.check_all_done();
  });
}

// ---- draining

TEST(DrainProperty, NothingLeavesADrainedQueueAndNothingIsLost) {
  each_seed(kSeeds, [](std::uint64_t seed) {
    Scene s{seed, false};
    Later drain{s.chance, [&] { s.set_state(s.c.a, QpState::sqd, Attr::kNotifyDrained); }};
    const auto drained = [&] { return Scene::count(s.c.a, EventKind::sq_drained) == 1; };
    (void)s.net.run_until(
        [&] {
          s.program.step();
          drain();
          return drained() || s.program.through();
        },
        120s);
    s.settle(0ns);
    if (s.c.a.qp->state.load() == QpState::sqd) {
      ASSERT_TRUE(drained()) << "the send queue never drained";
      s.program.step();
      const std::size_t told = s.program.completions_a.size();
      const Psn end = s.c.a.qp->requester.end;
      s.settle(10ms);
      EXPECT_EQ(s.program.completions_a.size(), told) << "a completion after it was drained";
      EXPECT_EQ(s.c.a.qp->requester.end, end) << "a request left after it was drained";
      EXPECT_TRUE(drained()) << "told twice";
      s.set_state(s.c.a, QpState::rts);
    }
    ASSERT_TRUE(s.run()) << "stuck";
    s.program.check_all_done();
    s.dismantle();
  });
}

// ---- completion queues that are too small

TEST(OverrunProperty, QueueThatNobodyPollsEndsItsQueuePair) {
  each_seed(kSeeds, [](std::uint64_t seed) {
    Chance chance{seed};
    World net{seed + 1, random_link(chance)};
    ConnectOptions o = Scene::make_options(chance);
    const bool at_a = chance.one_in(2);
    const std::uint32_t room = 1 + chance.pick(4);
    (at_a ? o.cq_a : o.cq_b) = room;
    Connection c{net, o};
    Program program{chance, c, o};
    (at_a ? program.poll_a : program.poll_b) = false;
    (void)net.run_until(
        [&] {
          program.step();
          return program.through();
        },
        10s);
    End& end = at_a ? c.a : c.b;
    program.poll_a = program.poll_b = true;
    program.step();
    const auto& told = at_a ? program.completions_a : program.completions_b;
    const bool overran = Scene::count(end, EventKind::cq_error) != 0;
    EXPECT_LE(told.size(), room);
    EXPECT_EQ(end.qp->state.load(), overran ? QpState::error : QpState::rts);
    EXPECT_LE(Scene::count(end, EventKind::cq_error), 1u);
    EXPECT_EQ(Scene::count(end, EventKind::qp_fatal), overran ? 1u : 0u);
    if (overran) {
      EXPECT_EQ(told.size(), room);
    }
    std::vector<CompletionStatus> errors;
    if (!at_a && overran) errors = {CompletionStatus::retry_exceeded};
    program.check({.errors = errors, .a_silent = at_a, .b_silent = !at_a});
    // No timer runs on for a queue pair that has failed.
    if (at_a && overran) {
      EXPECT_EQ(engine::next_deadline(*c.a.qp), kNever);
    }
  });
}

}  // namespace
}  // namespace verbena::sim
