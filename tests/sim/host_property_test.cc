// Random programs between processes of one host: frames cross rings, which lose nothing and hold
// back who is too fast. Nothing is sent twice because a reader is late; a way changes only between
// packets; whoever dies or stops is noticed, at every step.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "engine/transport_timer.h"
#include "tests/sim/program.h"
#include "tests/sim/seeds.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::CompletionStatus;
using engine::PostResult;
using engine::QpState;

HostRings random_rings(Chance& chance) {
  // From two records of the largest packets on.
  return {.capacity = 64u * (140 + (chance.one_in(4) ? chance.pick(2000) : chance.pick(40))),
          .doublings = chance.one_in(2) ? chance.pick(5) : 0,
          .wake = std::chrono::microseconds{1 + chance.pick(100)}};
}

ConnectOptions random_options(Chance& chance) {
  ConnectOptions o;
  o.mtu = static_cast<std::uint16_t>(256u << chance.pick(5));
  o.timeout = 14;
  o.rd_atomic = static_cast<std::uint8_t>(1 + chance.pick(8));
  o.depth = 1 + chance.pick(32);
  if (chance.one_in(2)) o.psn_a = Psn{0xff'fff0 + chance.pick(16)};
  if (chance.one_in(2)) o.psn_b = Psn{0xff'fff0 + chance.pick(16)};
  o.srq_b = chance.one_in(3);
  return o;
}

/// A world with rings, a connection in it, and a program.
struct Host {
  Host(std::uint64_t seed, const HostRings& rings) : world{seed, {}}, chance{seed} {
    world.use_rings(rings);
  }
  explicit Host(std::uint64_t seed) : world{seed, {}}, chance{seed} {
    world.use_rings(random_rings(chance));
  }
  void begin() {
    options = random_options(chance);
    c.emplace(world, options);
    program.emplace(chance, *c, options);
  }
  bool run(const std::function<bool()>& done, Duration limit) {
    return world.run_until(
        [&] {
          program->step();
          return done();
        },
        limit);
  }
  bool run_through() {
    return run([&] { return program->through(); }, 120s);
  }
  [[nodiscard]] engine::Counters both() const {
    engine::Counters sum = c->a.node->rnic().counters();
    sum += c->b.node->rnic().counters();
    return sum;
  }
  /// Nothing was sent twice, but for receives that came late.
  void expect_no_retry() const {
    const engine::Counters all = both();
    EXPECT_EQ(all.timeouts, 0u);
    EXPECT_EQ(all.early_retransmits, 0u);
    EXPECT_EQ(all.completer_retry_err, 0u);
    EXPECT_EQ(all.rcvd_seq_err, 0u);
  }

  World world;
  Chance chance;
  ConnectOptions options{};
  std::optional<Connection> c{};
  std::optional<Program> program{};
};

TEST(HostProperty, RandomProgramsOverRings) {
  std::uint64_t held_back = 0;
  std::uint64_t grown = 0;
  std::uint64_t programs = 0;
  each_seed(2000, [&](std::uint64_t seed) {
    Host h{seed};
    h.begin();
    ASSERT_TRUE(h.run_through());
    h.program->check_all_done();
    EXPECT_GT(h.world.through_rings(), 0u);
    h.expect_no_retry();
    held_back += h.world.held_back();
    grown += h.world.grown_rings();
    ++programs;
  });
  EXPECT_TRUE(programs < 100 || held_back > programs / 10) << held_back << " times no room";
  EXPECT_TRUE(programs < 100 || grown > programs / 50) << "rings grew " << grown << " times";
}

/// A reader may be away for as long as the scheduler likes.
TEST(HostProperty, AReaderThatIsAwayCostsNoRetry) {
  each_seed(2000, [](std::uint64_t seed) {
    Chance chance{seed};
    HostRings rings = random_rings(chance);
    rings.away = 20ms;
    rings.away_ppm = 50'000;
    Host h{seed, rings};
    h.begin();
    ASSERT_TRUE(h.run_through());
    h.program->check_all_done();
    h.expect_no_retry();
  });
}

/// The check itself: who isn't woken is noticed.
TEST(HostProperty, ALostBellIsNoticed) {
  unsigned noticed = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Chance chance{seed};
    HostRings rings = random_rings(chance);
    rings.lost_bells_ppm = 200'000;
    Host h{seed, rings};
    h.begin();
    noticed += !h.run_through() || h.both().timeouts > 0 ? 1 : 0;
  }
  EXPECT_GT(noticed, 40u);
}

/// From the network to the rings, at any step: only while nothing is under way, or frames would
/// overtake each other, and be asked for again. (There is no way back: who has come by rings gets
/// nothing from the network.)
TEST(HostProperty, TheWayChangesOnlyBetweenPackets) {
  each_seed(2000, [](std::uint64_t seed) {
    Host h{seed};
    h.world.set_link(faithful_link(h.chance));
    bool host = false;
    const std::uint32_t rarely = 1 + h.chance.pick(60);
    h.world.same_host = [&](const Node&, const Node&) { return host; };
    h.begin();
    ASSERT_TRUE(h.run(
        [&] {
          host = host || h.chance.one_in(rarely);
          return h.program->through();
        },
        120s));
    h.program->check_all_done();
    h.expect_no_retry();
  });
}

/// The same on a network that loses and delays: what was lost there may be sent again by the ring.
TEST(HostProperty, TheWayChangesWhateverTheNetworkLoses) {
  each_seed(2000, [](std::uint64_t seed) {
    Host h{seed};
    h.world.set_link(random_link(h.chance));
    bool host = false;
    const std::uint32_t rarely = 1 + h.chance.pick(60);
    h.world.same_host = [&](const Node&, const Node&) { return host; };
    h.begin();
    ASSERT_TRUE(h.run(
        [&] {
          host = host || h.chance.one_in(rarely);
          return h.program->through();
        },
        120s));
    h.program->check_all_done();
  });
}

/// Answers leave the way that their request came, though their sender would go another.
TEST(HostProperty, AnswersLeaveTheWayTheRequestCame) {
  each_seed(500, [](std::uint64_t seed) {
    Host h{seed};
    h.world.set_link(faithful_link(h.chance));
    std::uint64_t by_network = 0;
    h.world.filter = [&](const packet::Flow&, std::span<std::uint8_t>) { return ++by_network > 0; };
    const Node* asks = nullptr;
    h.world.same_host = [&](const Node& from, const Node&) {
      return asks == nullptr || &from == asks;
    };
    h.begin();
    asks = h.c->a.node;
    ASSERT_TRUE(h.run_through());
    h.program->check_all_done();
    EXPECT_EQ(by_network, 0u);
  });
}

// ---- misfortunes at every step

/// Runs to a step that the seed chooses.
void run_to_some_step(Host& h) {
  std::uint64_t steps = h.chance.pick(200);
  (void)h.run([&] { return steps-- == 0 || h.program->through(); }, 1s);
}

TEST(HostProperty, APeerThatDiesAtAnyStepIsNoticed) {
  each_seed(2000, [](std::uint64_t seed) {
    Host h{seed};
    h.begin();
    run_to_some_step(h);
    h.world.kill(*h.c->b.node);
    h.program->b_gone = true;
    ASSERT_TRUE(h.run_through());
    h.program->check({.errors = {CompletionStatus::retry_exceeded}, .b_silent = true});
  });
}

/// What a requester had published before it died is done, in order; the responder comes to rest.
TEST(HostProperty, ARequesterThatDiesAtAnyStepLeavesAPrefixDone) {
  each_seed(2000, [](std::uint64_t seed) {
    Host h{seed};
    h.begin();
    run_to_some_step(h);
    h.world.kill(*h.c->a.node);
    h.program->a_gone = true;
    h.program->poll_a = false;
    std::uint64_t rounds = 0;
    (void)h.run([&] { return ++rounds == 100'000; }, 100s);
    EXPECT_LT(rounds, 100'000u) << "somebody works for a dead process";
    h.program->check({.a_silent = true, .b_silent = true});
  });
}

/// However long a requester stands still, nothing fails at the end that answers it, and the
/// requester goes on where it was.
TEST(HostProperty, ARequesterThatWasStoppedForLongGoesOn) {
  each_seed(2000, [](std::uint64_t seed) {
    Host h{seed};
    h.begin();
    run_to_some_step(h);
    h.c->a.node->stopped = true;
    const Instant until = h.world.now() + std::chrono::milliseconds{1 + h.chance.pick(20'000)};
    (void)h.world.run_until([&] { return h.world.now() >= until; }, 60s);
    EXPECT_EQ(h.c->b.qp->state.load(), QpState::rts);
    h.c->a.node->stopped = false;
    ASSERT_TRUE(h.run_through());
    h.program->check_all_done();
    EXPECT_EQ(h.both().early_retransmits, 0u);
  });
}

TEST(HostProperty, APeerThatGoesOnInTimeCostsNothingButTime) {
  each_seed(2000, [](std::uint64_t seed) {
    Host h{seed};
    h.begin();
    run_to_some_step(h);
    Node& stopped = h.chance.one_in(2) ? *h.c->b.node : *h.c->a.node;
    stopped.stopped = true;
    const Instant until = h.world.now() + std::chrono::milliseconds{1 + h.chance.pick(40)};
    (void)h.run([&] { return h.world.now() >= until; }, 1s);
    stopped.stopped = false;
    ASSERT_TRUE(h.run_through());
    h.program->check_all_done();
    EXPECT_EQ(h.both().early_retransmits, 0u);
  });
}

TEST(HostProperty, APeerThatStaysStoppedIsGivenUpWhenTheTimerSaysSo) {
  each_seed(2000, [](std::uint64_t seed) {
    Host h{seed};
    h.begin();
    run_to_some_step(h);
    h.c->b.node->stopped = true;
    const Instant begun = h.world.now();
    ASSERT_TRUE(h.run_through()) << "somebody waits for ever";
    h.program->check({.errors = {CompletionStatus::retry_exceeded}, .b_silent = true});
    EXPECT_EQ(h.both().early_retransmits, 0u);
    if (h.c->a.qp->state.load() != QpState::error) return;  // all was done before
    const Duration all = (h.options.retry_count + 1) * engine::transport_timeout(h.options.timeout);
    EXPECT_LE(h.world.now() - begun, all + 1s);
    EXPECT_GE(h.world.now() - begun, all - engine::transport_timeout(h.options.timeout));
  });
}

/// Whatever lies in a ring: what is posted completes once, and nothing happens beside the regions.
TEST(HostProperty, HostileContentsDoNoHarm) {
  each_seed(2000, [](std::uint64_t seed) {
    Host h{seed};
    h.begin();
    h.world.meddle = [&](HostRing& ring) {
      if (!h.chance.one_in(6)) return;
      const auto bytes = ring.bytes();
      for (std::uint32_t n = 1 + h.chance.pick(4); n > 0; --n) {
        // Headers of records are where most can be done.
        const std::size_t line = h.chance.pick(static_cast<std::uint32_t>(bytes.size() / 64)) * 64;
        const std::size_t at =
            h.chance.one_in(2) ? line + h.chance.pick(48) : line + h.chance.pick(64);
        bytes[at] = h.chance.byte();
      }
    };
    (void)h.run([&] { return h.program->through(); }, 30s);
    h.world.meddle = nullptr;
    std::vector<std::uint64_t> ids;
    for (const auto& completion : h.program->completions_a) ids.push_back(completion.wr_id);
    std::ranges::sort(ids);
    EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end()) << "a request completed twice";
  });
}

}  // namespace
}  // namespace verbena::sim
