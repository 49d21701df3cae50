// Random programs of work requests over random networks, compared with what they must give:
// memory contents, order, number and status of completions, nothing executed twice.

#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "tests/sim/seeds.h"
#include "tests/sim/world.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Completion;
using engine::CompletionKind;
using engine::CompletionStatus;
using engine::SendKind;
using engine::Sge;

constexpr std::size_t kMemory = 1u << 18;

/// A side of the conversation, with the memory that the model says it should have.
struct Side {
  Side(End& e, std::uint8_t fill) : end{e}, memory(kMemory, fill), expected(kMemory, fill) {
    region = end.node->expose(end.pd, memory,
                              Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead |
                                  Access::kRemoteAtomic | Access::kFlushGlobal);
  }
  End& end;
  std::vector<std::uint8_t> memory;
  std::vector<std::uint8_t> expected;
  engine::MemoryRegion region;
  std::deque<std::uint64_t> sends;  // wr_ids of signalled requests, in order
  std::deque<Completion> receives;  // as they must come
  std::uint64_t posted_receives = 0;
};

struct Range {
  std::uint32_t offset;
  std::uint32_t length;
};

/// The test's own requests never touch each other's bytes: each gets a fresh piece of memory.
class Allocator {
 public:
  Range take(std::uint32_t length) {
    const Range r{next_, length};
    next_ += (length + 7) & ~7u;  // atomics want aligned words
    return r;
  }
  [[nodiscard]] bool has(std::uint32_t length) const { return next_ + length + 8 <= kMemory; }

 private:
  std::uint32_t next_ = 0;
};

constexpr std::array kKinds{
    SendKind::send, SendKind::send_immediate, SendKind::write,     SendKind::write_immediate,
    SendKind::read, SendKind::compare_swap,   SendKind::fetch_add, SendKind::atomic_write,
    SendKind::flush};

bool is_atomic(SendKind k) { return k == SendKind::compare_swap || k == SendKind::fetch_add; }

void store(std::vector<std::uint8_t>& memory, std::uint32_t at, std::uint64_t word) {
  std::memcpy(memory.data() + at, &word, sizeof word);
}

std::vector<Sge> split(World& world, const Side& side, Range r, std::uint32_t pieces) {
  std::vector<Sge> out;
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < pieces; ++i) {
    const std::uint32_t n =
        i + 1 == pieces ? r.length - at : (r.length == at ? 0 : world.pick(r.length - at + 1));
    out.push_back({side.region.iova + r.offset + at, n, side.region.key});
    at += n;
  }
  return out;
}

void run_program(std::uint64_t seed) {
  World world{seed, {}};
  Link link;
  link.delay = std::chrono::microseconds{1 + world.pick(200)};
  if (world.pick(2) != 0) link.loss_ppm = world.pick(100'000);
  if (world.pick(2) != 0) link.duplicate_ppm = world.pick(50'000);
  if (world.pick(3) == 0) link.jitter = std::chrono::microseconds{1 + world.pick(100)};
  if (world.pick(3) == 0) link.reorder_ppm = world.pick(50'000);
  if (world.pick(3) == 0) link.corrupt_ppm = world.pick(20'000);
  if (world.pick(3) == 0) {
    link.bytes_per_second = 10'000'000 + world.pick(1'000'000'000);
    link.queue_bytes = 10'000 + world.pick(200'000);
    link.mark_above_bytes = link.queue_bytes / 2;
  }
  ReceiveBuffer buffer;
  if (world.pick(3) == 0) {
    buffer = {.bytes = 20'000 + world.pick(ReceiveBuffer::kDefault),
              .service = std::chrono::nanoseconds{100 + world.pick(5000)},
              .nap = std::chrono::microseconds{world.pick(200)}};
  }
  World net{seed + 1, link};

  ConnectOptions o;
  o.mtu = static_cast<std::uint16_t>(256u << world.pick(5));
  o.timeout = 12;
  o.rd_atomic = static_cast<std::uint8_t>(1 + world.pick(8));
  o.depth = 1 + world.pick(32);
  if (world.pick(2) != 0) o.psn_a = Psn{0xff'fff0 + world.pick(16)};
  if (world.pick(2) != 0) o.psn_b = Psn{0xff'fff0 + world.pick(16)};
  if (world.pick(2) != 0) o.traffic_class = 2;  // the network may mark congestion
  Connection c{net, o};
  c.a.node->buffer = c.b.node->buffer = buffer;
  Side a{c.a, 0xaa};
  Side b{c.b, 0xbb};
  Allocator memory_a;
  Allocator memory_b;
  const bool receive_late = world.pick(3) == 0;  // provokes RNR NAKs

  std::uint64_t wr_id = 0;
  const std::uint32_t requests = 1 + world.pick(40);
  std::deque<std::function<bool()>> late;

  for (std::uint32_t i = 0; i < requests; ++i) {
    const SendKind kind = kKinds[world.pick(kKinds.size())];
    const bool word = is_atomic(kind) || kind == SendKind::atomic_write;
    const std::uint32_t length = word                      ? 8
                                 : kind == SendKind::flush ? 0
                                 : world.pick(8) == 0      ? 0
                                                           : world.pick(3 * o.mtu + 2);
    if (!memory_a.has(length) || !memory_b.has(length)) break;
    const Range here = memory_a.take(length);
    const Range there = memory_b.take(length);
    const bool takes_receive = kind == SendKind::send || kind == SendKind::send_immediate ||
                               kind == SendKind::write_immediate;

    // The initiator is A; B only serves.
    auto& source = kind == SendKind::read ? b : a;
    auto& target = kind == SendKind::read ? a : b;
    const Range from = kind == SendKind::read ? there : here;
    const Range to = kind == SendKind::read ? here : there;
    for (std::uint32_t j = 0; j < (is_atomic(kind) ? 0 : length); ++j) {
      const auto byte = static_cast<std::uint8_t>(world.random()());
      source.memory[from.offset + j] = source.expected[from.offset + j] = byte;
      target.expected[to.offset + j] = byte;
    }
    engine::AtomicOperands operands;
    if (is_atomic(kind)) {
      // The word is B's and moves to A; then it changes.
      const std::uint64_t original = world.random()();
      store(b.memory, there.offset, original);
      store(a.expected, here.offset, original);
      operands.swap_or_add = world.random()();
      operands.compare = world.pick(2) != 0 ? original : original + 1;
      const std::uint64_t after = kind == SendKind::fetch_add    ? original + operands.swap_or_add
                                  : operands.compare == original ? operands.swap_or_add
                                                                 : original;
      store(b.expected, there.offset, after);
    }

    if (takes_receive) {
      const std::uint64_t id = 1'000'000 + b.posted_receives++;
      auto sges = split(world, b, there, 1 + world.pick(o.sges));
      auto post = [&b, id, sges] {
        const auto r = b.end.receive({.wr_id = id, .sges = sges});
        EXPECT_TRUE(r == engine::PostResult::posted || r == engine::PostResult::queue_full);
        return r == engine::PostResult::posted;
      };
      if (receive_late || !late.empty() || !post()) late.emplace_back(post);
      Completion want;
      want.wr_id = id;
      want.kind = kind == SendKind::write_immediate ? CompletionKind::receive_write_immediate
                                                    : CompletionKind::receive;
      want.has_immediate = kind != SendKind::send;
      want.immediate = {1, 2, 3, static_cast<std::uint8_t>(i)};
      want.byte_count = length;
      b.receives.push_back(want);
    }

    const std::uint64_t id = wr_id++;
    const bool signaled = world.pick(2) != 0;
    const bool inlined = kind != SendKind::read && kind != SendKind::flush && !is_atomic(kind) &&
                         length <= o.max_inline && world.pick(2) != 0;
    const auto sges = split(world, a, here, 1 + world.pick(o.sges));
    const engine::SendRequest request{.wr_id = id,
                                      .kind = kind,
                                      .signaled = signaled,
                                      .solicited = false,
                                      .fence = world.pick(4) == 0,
                                      .inlined = inlined,
                                      .immediate = {1, 2, 3, static_cast<std::uint8_t>(i)},
                                      .remote_address = b.region.iova + there.offset,
                                      .rkey = b.region.key,
                                      .sges = sges,
                                      .atomic = operands,
                                      .flush = {.what = {.global_visibility = true}, .length = 1}};
    const auto drain = [&] {
      while (!late.empty() && late.front()()) late.pop_front();
      for (const Completion& got : a.end.poll()) {
        ASSERT_EQ(got.status, CompletionStatus::success);
        ASSERT_FALSE(a.sends.empty());
        ASSERT_EQ(got.wr_id, a.sends.front());
        a.sends.pop_front();
      }
      for (const Completion& got : b.end.poll()) {
        ASSERT_EQ(got.status, CompletionStatus::success);
        ASSERT_FALSE(b.receives.empty()) << "a receive completed that nothing was sent to";
        const Completion want = b.receives.front();
        b.receives.pop_front();
        ASSERT_EQ(got.wr_id, want.wr_id);
        ASSERT_EQ(got.kind, want.kind);
        ASSERT_EQ(got.byte_count, want.byte_count);
        ASSERT_EQ(got.has_immediate, want.has_immediate);
        ASSERT_EQ(got.immediate, want.has_immediate ? want.immediate : packet::Immediate{});
      }
    };
    bool posted = false;
    ASSERT_TRUE(net.run_until(
        [&] {
          drain();
          posted = posted || a.end.send(request) == engine::PostResult::posted;
          return posted || testing::Test::HasFatalFailure();
        },
        60s))
        << "the send queue never drained";
    if (signaled) a.sends.push_back(id);
    ASSERT_TRUE(net.run_until(
        [&] {
          drain();
          return i + 1 < requests || testing::Test::HasFatalFailure() ||
                 (a.sends.empty() && b.receives.empty() && c.a.qp->sq.head() == c.a.qp->sq.tail());
        },
        120s))
        << "stuck: " << a.sends.size() << " sends and " << b.receives.size()
        << " receives outstanding, head " << c.a.qp->sq.head() << " tail " << c.a.qp->sq.tail();
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(a.memory, a.expected);
  EXPECT_EQ(b.memory, b.expected);
}

TEST(RcProperty, RandomProgramsOverRandomNetworks) { each_seed(2000, run_program); }

}  // namespace
}  // namespace verbena::sim
