// Traffic without memory: every allocation of receive() and work() fails in turn, once alone and
// once with all that follow for a while. Nothing is thrown, every request completes once and in
// order, and what completes well has been done once.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "engine/rnic.h"
#include "tests/support/datagram.h"
#include "tests/unit/engine/shortage.h"

namespace verbena::engine {
namespace {

using namespace std::chrono_literals;
using test::shortage;

const IpAddress kHere = IpAddress::v4({127, 0, 0, 1});
constexpr std::size_t kMessage = 3000;  // three packets
constexpr std::size_t kWord = 7 * kMessage;
static_assert(kWord % 8 == 0);
constexpr int kRounds = 3;
constexpr int kLasting = 20;  // steps that a lasting shortage lasts
constexpr std::uint32_t kQkey = 0x1111;

/// The engine's calls alone run out of memory, not the test's.
class Scarce {
 public:
  Scarce() { shortage.active = armed; }
  ~Scarce() {
    armed = shortage.active;
    shortage.active = false;
  }
  static inline bool armed = false;
};

/// Two queue pairs of one engine, which get each other's frames.
struct Traffic final : memory::Dma, Entropy, packet::FrameSink {
  explicit Traffic(QpType t) : type{t}, rnic{1, *this, *this}, cq{256} {
    frames.reserve(4096);
    pd = rnic.alloc_pd().value();
    const unsigned access =
        Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
    const auto base = reinterpret_cast<std::uint64_t>(memory.data());
    region = rnic.register_memory(pd, {base, memory.size()}, base, access).value();
    srq = rnic.create_srq({.pd = pd, .depth = 64, .max_sge = 4}).value();
    for (QueuePair*& qp : qps) {
      qp = rnic.create_qp({.pd = pd,
                           .send_cq = &cq,
                           .receive_cq = &cq,
                           .max_send = 64,
                           .max_receive = 4,
                           .max_send_sge = 4,
                           .max_receive_sge = 4,
                           .signal_all = true,
                           .type = type,
                           .srq = srq})
               .value();
    }
    for (std::size_t i = 0; i < qps.size(); ++i) connect(*qps[i], *qps[1 - i]);
    done.reserve(256);
  }

  void connect(QueuePair& qp, const QueuePair& peer) {
    const bool connected = type != QpType::ud;
    const bool reliable = type == QpType::rc;
    QpAttributes a{.state = QpState::init,
                   .access = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic,
                   .qkey = kQkey,
                   .flow = {kHere, kHere, 0xc000, 0, 0},
                   .timeout = 10,  // 4 ms
                   .retry_count = 7,
                   .rnr_retry = 7,
                   .max_rd_atomic = 4,
                   .max_dest_rd_atomic = 4,
                   .min_rnr_timer = 1,
                   .dest_qpn = peer.qpn};
    ASSERT_TRUE(rnic.modify_qp(qp, a,
                               Attr::kState | Attr::kPkeyIndex | Attr::kPort |
                                   (connected ? Attr::kAccess : Attr::kQkey))
                    .ok());
    a.state = QpState::rtr;
    unsigned mask = Attr::kState;
    if (connected) mask |= Attr::kPath | Attr::kPathMtu | Attr::kDestQpn | Attr::kRqPsn;
    if (reliable) mask |= Attr::kMaxDestRdAtomic | Attr::kMinRnrTimer;
    ASSERT_TRUE(rnic.modify_qp(qp, a, mask).ok());
    a.state = QpState::rts;
    mask = Attr::kState | Attr::kSqPsn;
    if (reliable) mask |= Attr::kTimeout | Attr::kRetryCount | Attr::kRnrRetry | Attr::kMaxRdAtomic;
    ASSERT_TRUE(rnic.modify_qp(qp, a, mask).ok());
  }

  void post(SendKind kind, std::uint64_t remote, std::size_t length) {
    // Several pieces, as a program may have them.
    const auto from = reinterpret_cast<std::uint64_t>(memory.data());
    const auto half = static_cast<std::uint32_t>(length / 2);
    const std::array sges{Sge{from, half, region.key},
                          Sge{from + half, static_cast<std::uint32_t>(length) - half, region.key}};
    SendRequest r{.wr_id = posted++, .kind = kind, .remote_address = remote, .rkey = region.key};
    r.sges = sges;
    r.atomic.swap_or_add = 1;
    if (type == QpType::ud) {
      r.destination = {.flow = {kHere, kHere, 0xc000, 0, 0}, .qpn = qps[1]->qpn, .qkey = kQkey};
    }
    ASSERT_EQ(rnic.post_send(*qps[0], r), PostResult::posted);
  }
  void post_receive() {
    const auto to = reinterpret_cast<std::uint64_t>(&memory[2 * kMessage]);
    const std::array sges{Sge{to, 40, region.key}, Sge{to + 40, 2 * kMessage, region.key}};
    ASSERT_EQ(Rnic::post_receive(*srq, {.wr_id = kReceive, .sges = sges}), PostResult::posted);
  }
  void post_everything() {
    const auto target = reinterpret_cast<std::uint64_t>(&memory[5 * kMessage]);
    const std::size_t size = type == QpType::ud ? 1000 : kMessage;
    for (int i = 0; i < kRounds; ++i) {
      for (int n = 0; n < 3; ++n) post_receive();
      post(SendKind::send, 0, size);
      post(SendKind::send_immediate, 0, size);
      if (type == QpType::ud) continue;
      post(SendKind::write, target, kMessage);
      post(SendKind::write_immediate, target, kMessage);
      if (type == QpType::uc) continue;
      post(SendKind::read, target, kMessage);
      for (int n = 0; n < 6; ++n) {  // more than may be outstanding
        post(SendKind::fetch_add, reinterpret_cast<std::uint64_t>(&memory[kWord]), 8);
      }
    }
    ASSERT_TRUE(rnic.set_srq_limit(*srq, 4).ok());  // an event on the way
    // The last one ends in an error, with events of both kinds at the target.
    if (type == QpType::rc) post(SendKind::write, 1, 8);
  }

  void step() {
    now += 1ms;
    cq.arm(false);
    {
      const Scarce scarce;
      rnic.work(*this, now);
    }
    std::vector<std::vector<std::uint8_t>> arrived;
    arrived.swap(frames);
    frames.reserve(4096);
    for (const auto& bytes : arrived) {
      const Scarce scarce;
      rnic.receive(test::delivered({.source = kHere,
                                    .destination = kHere,
                                    .source_port = 0xc000,
                                    .hop_limit = 64,
                                    .bytes = bytes}),
                   now);
    }
    notified = notified || !rnic.notifications().empty();
    told += rnic.events().size();
    rnic.notifications().clear();
    rnic.events().clear();
    std::array<Completion, 64> some{};
    for (std::size_t n = cq.poll(some); n > 0; n = cq.poll(some)) {
      done.insert(done.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
    }
  }

  /// What atomics count in.
  [[nodiscard]] std::uint64_t word() const {
    std::uint64_t value = 0;
    std::memcpy(&value, &memory[kWord], sizeof value);
    return value;
  }

  /// Sends that are complete.
  [[nodiscard]] std::vector<Completion> sends() const {
    std::vector<Completion> out;
    for (const Completion& c : done) {
      if (c.wr_id != kReceive) out.push_back(c);
    }
    return out;
  }

  void dismantle() {
    for (QueuePair* qp : qps) EXPECT_TRUE(rnic.destroy_qp(*qp, *this).ok());
    EXPECT_TRUE(rnic.destroy_srq(*srq).ok());
    EXPECT_TRUE(rnic.deregister_memory(region.key).ok());
    EXPECT_EQ(cq.users, 0u);
    EXPECT_TRUE(rnic.dealloc_pd(pd).ok());
  }

  // Dma: the test's own memory.
  bool gather(std::span<const Segment> from, std::span<std::uint8_t> into) override {
    std::size_t at = 0;
    for (const Segment& s : from) {
      std::memcpy(&into[at], reinterpret_cast<const void*>(s.address), s.length);
      at += s.length;
    }
    return true;
  }
  bool scatter(std::span<const std::uint8_t> from, std::span<const Segment> into) override {
    std::size_t at = 0;
    for (const Segment& s : into) {
      std::memcpy(reinterpret_cast<void*>(s.address), &from[at], s.length);
      at += s.length;
    }
    return true;
  }
  std::optional<std::uint64_t> compare_swap(std::uint64_t, std::uint64_t, std::uint64_t) override {
    return std::nullopt;
  }
  std::optional<std::uint64_t> fetch_add(std::uint64_t, std::uint64_t add) override {
    const std::uint64_t before = word();
    const std::uint64_t after = before + add;
    std::memcpy(&memory[kWord], &after, sizeof after);
    return before;
  }
  bool store(std::uint64_t, std::uint64_t) override { return false; }
  std::uint32_t next() override { return random_ = random_ * 1664525 + 1013904223; }
  // FrameSink: a frame, and room for the ICRC that nobody looks at here.
  std::span<std::uint8_t> reserve(const packet::Flow&, Qpn, std::size_t size) override {
    const bool armed = std::exchange(shortage.active, false);
    reserved_.assign(size + 4, 0);
    shortage.active = armed;
    return std::span{reserved_}.first(size);
  }
  void commit() override {
    const bool armed = std::exchange(shortage.active, false);
    frames.push_back(reserved_);
    shortage.active = armed;
  }
  bool full() const override { return false; }

  static constexpr std::uint64_t kReceive = 1u << 20;

  const QpType type;
  Rnic rnic;
  CompletionQueue cq;
  PdId pd{};
  MemoryRegion region;
  SharedReceiveQueue* srq = nullptr;
  std::array<QueuePair*, 2> qps{};
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(8 * kMessage);
  std::vector<std::vector<std::uint8_t>> frames;
  std::vector<Completion> done;
  std::uint64_t posted = 0;
  bool notified = false;
  std::size_t told = 0;
  Instant now{};

 private:
  std::uint32_t random_ = 7;
  std::vector<std::uint8_t> reserved_;
};

struct Shape {
  const char* name;
  QpType type;
  bool lasting;
};

class NoMemoryTraffic : public testing::TestWithParam<Shape> {
 protected:
  /// Runs the traffic with the n-th allocation failing. True: there was one.
  bool run(std::uint32_t n) {
    Traffic t{GetParam().type};
    t.post_everything();
    shortage = {.active = false, .lasting = GetParam().lasting, .left = n};
    Scarce::armed = true;
    int lasted = 0;
    for (int i = 0; i < 2000 && t.sends().size() < t.posted; ++i) {
      EXPECT_NO_THROW(t.step());
      if (shortage.struck && ++lasted == kLasting) Scarce::armed = false;
    }
    for (int i = 0; i < 5; ++i) t.step();  // what is still on its way
    const bool struck = shortage.struck;
    Scarce::armed = false;
    shortage = {};
    check(t);
    t.dismantle();
    return struck;
  }

  void check(const Traffic& t) {
    const auto sends = t.sends();
    ASSERT_EQ(sends.size(), t.posted) << "requests without a completion";
    std::uint64_t added = 0;
    for (std::size_t i = 0; i < sends.size(); ++i) {
      EXPECT_EQ(sends[i].wr_id, i);
      // The last of RC is wrong by itself. The others wait for memory, and it comes in time.
      const bool wrong = GetParam().type == QpType::rc && i + 1 == sends.size();
      EXPECT_EQ(sends[i].status,
                wrong ? CompletionStatus::remote_access_error : CompletionStatus::success)
          << "request " << i;
      added += sends[i].kind == CompletionKind::fetch_add ? 1 : 0;
    }
    EXPECT_EQ(t.word(), added) << "an atomic was lost, or done twice";
    EXPECT_TRUE(t.notified);
    EXPECT_EQ(t.rnic.counters().lost_events, 0u);
    // The limit of the shared queue; at the target of the last one the error and its last receive.
    // What takes a receive may be lost of UC and UD.
    EXPECT_GE(t.told, GetParam().type == QpType::rc ? 3u : 0u);
  }
};

TEST_P(NoMemoryTraffic, IsLateAtWorst) {
  std::uint32_t n = 0;
  while (run(n)) {
    if (HasFatalFailure()) FAIL() << "allocation " << n;
    ASSERT_LT(++n, 500u) << "it never has enough";
  }
  EXPECT_GT(n, 0u) << "no allocation was seen: the test proves nothing";
}

INSTANTIATE_TEST_SUITE_P(
    Services, NoMemoryTraffic,
    testing::Values(Shape{"rc", QpType::rc, false}, Shape{"rc_for_a_while", QpType::rc, true},
                    Shape{"uc", QpType::uc, false}, Shape{"uc_for_a_while", QpType::uc, true},
                    Shape{"ud", QpType::ud, false}, Shape{"ud_for_a_while", QpType::ud, true}),
    [](const auto& shape) { return std::string{shape.param.name}; });

}  // namespace
}  // namespace verbena::engine
