// Sixteen to one, at Linux's default receive buffer: it belongs to the receiving process, so all
// connections of a process share what holds 25 packets of 4 KiB. Everybody finishes, the receiver
// gets at least half of what it gets from one sender alone, and nobody is left behind: with equal
// work for all, the last is through within three times the mean.
//
// SEED=n SEEDS=m runs m seeds from n on.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/sim/world.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Completion;
using engine::CompletionStatus;
using engine::PostResult;
using engine::SendKind;
using engine::Sge;

constexpr std::uint32_t kSenders = 16;
constexpr std::uint32_t kDepth = 128;

struct Load {
  SendKind kind;
  std::uint32_t bytes;     // of a message
  std::uint32_t messages;  // of all senders together

  /// Messages that one sender has under way.
  [[nodiscard]] std::uint32_t in_flight() const {
    return std::clamp((1u << 19) / bytes, 2u, kDepth);
  }
};

struct Figures {
  double goodput = 0;   // MB/s
  double lateness = 0;  // when the last sender was through, in mean times
  double overflows = 0;
  double early = 0;     // retries: ours
  double timeouts = 0;  // the transport timer's

  Figures& operator+=(const Figures& f) {
    goodput += f.goodput;
    lateness += f.lateness;
    overflows += f.overflows;
    early += f.early;
    timeouts += f.timeouts;
    return *this;
  }
};

void PrintTo(const Load& load, std::ostream* out) {
  *out << load.messages << " messages of " << load.bytes << " bytes";
}

/// One process with a receive buffer, and those that fill it: they write or send to it, or it
/// reads from them.
class Incast {
 public:
  Incast(std::uint64_t seed, const Load& load, std::uint32_t senders)
      : load_{load}, world_{seed, {}}, center_{world_.add_node()}, memory_(load.bytes) {
    Link link;
    link.delay = std::chrono::microseconds{2 + world_.pick(20)};
    world_.set_link(link);
    center_.buffer = {
        .bytes = ReceiveBuffer::kDefault,
        .service = std::chrono::nanoseconds{1000 + world_.pick(2000)},
        .nap = world_.pick(2) == 0 ? 0us : std::chrono::microseconds{1 + world_.pick(50)}};
    for (std::uint32_t i = 0; i < senders; ++i) add_peer();
  }

  Figures run() {
    const Instant start = world_.now();
    const bool finished = world_.run_until(
        [&] {
          for (Peer& p : peers_) serve(p);
          return done_ == load_.messages || failure_ != CompletionStatus::success;
        },
        60s);
    EXPECT_TRUE(finished) << done_ << " of " << load_.messages << " messages";
    EXPECT_EQ(failure_, CompletionStatus::success);
    const auto seconds = [&](Instant t) {
      return std::chrono::duration<double>{t - start}.count();
    };
    Figures f;
    f.goodput = static_cast<double>(load_.bytes) * load_.messages / seconds(world_.now()) / 1e6;
    double sum = 0;
    for (const Peer& p : peers_) sum += seconds(p.through);
    f.lateness = seconds(world_.now()) * static_cast<double>(peers_.size()) / sum;
    f.overflows = static_cast<double>(center_.overflows());
    for (Node* node : asking_) {
      f.early += static_cast<double>(node->rnic().counters().early_retransmits);
      f.timeouts += static_cast<double>(node->rnic().counters().timeouts);
    }
    return f;
  }

 private:
  struct Peer {
    std::unique_ptr<Connection> connection;
    engine::MemoryRegion near;  // of the end that asks
    engine::MemoryRegion far;
    std::uint32_t posted = 0;
    std::uint32_t done = 0;
    Instant through{};
  };

  void add_peer() {
    const bool reads = load_.kind == SendKind::read;
    Node& other = world_.add_node();
    const ConnectOptions options{.mtu = 4096, .timeout = 14, .retry_count = 7, .depth = kDepth};
    Peer p;
    p.connection =
        std::make_unique<Connection>(options, reads ? center_ : other, reads ? other : center_);
    const unsigned all = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead;
    p.near = p.connection->a.node->expose(p.connection->a.pd, memory_, all);
    p.far = p.connection->b.node->expose(p.connection->b.pd, memory_, all);
    if (!reads || asking_.empty()) asking_.push_back(p.connection->a.node);
    if (load_.kind == SendKind::send) {
      for (std::uint32_t i = 0; i < kDepth; ++i) post_receive(p);
    }
    peers_.push_back(std::move(p));
  }

  void post_receive(Peer& p) {
    const std::array sges{Sge{p.far.iova, load_.bytes, p.far.key}};
    EXPECT_EQ(p.connection->b.receive({.sges = sges}), PostResult::posted);
  }

  void serve(Peer& p) {
    auto& some = completions_;
    while (const std::size_t n = p.connection->b.cq->poll(some)) {
      for (std::size_t i = 0; i < n; ++i) post_receive(p);
    }
    while (const std::size_t n = p.connection->a.cq->poll(some)) {
      for (std::size_t i = 0; i < n; ++i) {
        if (some[i].status != CompletionStatus::success) failure_ = some[i].status;
      }
      p.done += static_cast<std::uint32_t>(n);
      done_ += static_cast<std::uint32_t>(n);
    }
    const std::uint32_t share = load_.messages / static_cast<std::uint32_t>(peers_.size());
    if (p.done == share && p.through == Instant{}) p.through = world_.now();
    const std::array sges{Sge{p.near.iova, load_.bytes, p.near.key}};
    for (; p.posted < share && p.posted - p.done < load_.in_flight(); ++p.posted) {
      ASSERT_EQ(p.connection->a.send({.kind = load_.kind,
                                      .signaled = true,
                                      .remote_address = p.far.iova,
                                      .rkey = p.far.key,
                                      .sges = sges}),
                PostResult::posted);
    }
  }

  Load load_;
  World world_;
  Node& center_;
  std::vector<std::uint8_t> memory_;
  std::vector<Peer> peers_;
  std::vector<Node*> asking_;
  std::array<Completion, 8> completions_;
  std::uint32_t done_ = 0;
  CompletionStatus failure_ = CompletionStatus::success;
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// ThreadSanitizer makes it ten times slower, and has nothing to find in a single thread.
#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t kSeeds = 1;
#else
constexpr std::uint64_t kSeeds = 20;
#endif

class SixteenToOne : public testing::TestWithParam<Load> {};

TEST_P(SixteenToOne, AllFinishWithHalfOfOneSendersGoodput) {
  const std::uint64_t first = setting("SEED", 1);
  const std::uint64_t seeds = setting("SEEDS", first == 1 ? kSeeds : 1);
  const Load load = GetParam();
  Load less = load;
  less.messages /= 4;
  Figures one;
  Figures many;
  double worst = 1e9;
  double latest = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    const Figures alone = Incast{seed, less, 1}.run();
    const Figures together = Incast{seed, load, kSenders}.run();
    EXPECT_GE(together.goodput, alone.goodput / 2);
    EXPECT_LE(together.lateness, 3);
    if (HasFailure()) return;
    one += alone;
    many += together;
    worst = std::min(worst, together.goodput / alone.goodput);
    latest = std::max(latest, together.lateness);
  }
  const auto n = static_cast<double>(seeds);
  std::printf(
      "  %.0f MB/s from one, %.0f from %u: %.2f, worst %.2f; the last after %.2f mean times, worst "
      "%.2f\n  per run: %.0f and %.0f overflows, %.1f and %.1f early retries, %.2f and %.2f "
      "timeouts\n",
      one.goodput / n, many.goodput / n, kSenders, many.goodput / one.goodput, worst,
      many.lateness / n, latest, one.overflows / n, many.overflows / n, one.early / n,
      many.early / n, one.timeouts / n, many.timeouts / n);
}

std::string name_of(const testing::TestParamInfo<Load>& info) {
  const SendKind kind = info.param.kind;
  const std::string words = kind == SendKind::send    ? "Send"
                            : kind == SendKind::write ? "Write"
                                                      : "Read";
  return words + std::to_string(info.param.bytes);
}

std::vector<Load> loads() {
  std::vector<Load> all;
  for (const SendKind kind : {SendKind::send, SendKind::write, SendKind::read}) {
    all.push_back({kind, 64, 24'576});
    all.push_back({kind, 4096, 16'384});
    all.push_back({kind, 65'536, 1024});
    all.push_back({kind, 1u << 20, 64});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Loads, SixteenToOne, testing::ValuesIn(loads()), name_of);

}  // namespace
}  // namespace verbena::sim
