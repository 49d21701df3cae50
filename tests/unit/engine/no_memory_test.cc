// Set-up without memory: every allocation of every call fails in turn, once alone and once with
// all that follow. The call says ENOMEM, nothing has changed, and everything can be taken down.

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <new>

#include "engine/rnic.h"
#include "tests/unit/engine/shortage.h"

namespace verbena::engine {
namespace {

using test::shortage;

constexpr std::size_t kRegions = 8;  // the next one makes the key table grow

/// An engine with one of everything, and nowhere to send to.
struct Fixture final : memory::Dma, Entropy, packet::FrameSink {
  Fixture() : rnic{1, *this, *this}, cq{16}, pd{rnic.alloc_pd().value()} {
    // The fixture's own lists have room: only the engine is to run out of it.
    regions.reserve(kRegions + 1);
    qps.reserve(3);
    srqs.reserve(1);
    windows.reserve(1);
    xrcds.reserve(2);
    xrcds.push_back(rnic.open_xrcd().value());
    for (std::size_t i = 0; i < kRegions; ++i) regions.push_back(make_region().value());
    for (QpType type : {QpType::rc, QpType::ud}) {
      qps.push_back(rnic.create_qp(init(type)).value());
    }
  }

  [[nodiscard]] QpInit init(QpType type) {
    return {.pd = pd,
            .send_cq = &cq,
            .receive_cq = &cq,
            .max_send = 8,
            .max_receive = 8,
            .max_send_sge = 4,
            .max_receive_sge = 4,
            .max_inline = 64,
            .type = type};
  }
  Result<MemoryRegion> make_region() {
    return rnic.register_memory(pd, {0x1000, 0x1000}, 0x1000, Access::kLocalWrite);
  }
  QueuePair& rc() { return *qps[0]; }
  QueuePair& ud() { return *qps[1]; }

  Status modify(QpState state, unsigned mask) {
    QpAttributes to;
    to.state = state;
    return rnic.modify_qp(rc(), to, Attr::kState | mask);
  }
  Status to_init() { return modify(QpState::init, Attr::kPkeyIndex | Attr::kPort | Attr::kAccess); }
  Status to_rtr() {
    return modify(QpState::rtr, Attr::kPath | Attr::kPathMtu | Attr::kDestQpn | Attr::kRqPsn |
                                    Attr::kMaxDestRdAtomic | Attr::kMinRnrTimer);
  }
  Status to_rts() {
    return modify(QpState::rts, Attr::kTimeout | Attr::kRetryCount | Attr::kRnrRetry |
                                    Attr::kSqPsn | Attr::kMaxRdAtomic);
  }
  void bring_up() {
    ASSERT_TRUE(to_init().ok() && to_rtr().ok() && to_rts().ok());
    const std::array sges{Sge{0x1000, 8, regions[0].key}};
    for (std::uint64_t id = 0; id < 4; ++id) {
      ASSERT_EQ(rnic.post_receive(rc(), {.wr_id = id, .sges = sges}), PostResult::posted);
      ASSERT_EQ(rnic.post_send(rc(), {.wr_id = id, .sges = sges}), PostResult::posted);
    }
    cq.arm(false);
  }

  /// Nothing is in use that nobody holds.
  void dismantle() {
    for (QueuePair* qp : qps) EXPECT_TRUE(rnic.destroy_qp(*qp, *this).ok());
    for (const MemoryRegion& r : regions) EXPECT_TRUE(rnic.deregister_memory(r.key).ok());
    for (SharedReceiveQueue* srq : srqs) EXPECT_TRUE(rnic.destroy_srq(*srq).ok());
    for (Key window : windows) EXPECT_TRUE(rnic.dealloc_window(window).ok());
    for (XrcdId xrcd : xrcds) EXPECT_TRUE(rnic.close_xrcd(xrcd).ok());
    EXPECT_EQ(cq.users, 0u);
    EXPECT_TRUE(rnic.dealloc_pd(pd).ok()) << "something is still in the domain";
  }

  // Dma, Entropy, FrameSink: nothing moves here.
  bool gather(std::span<const Segment>, std::span<std::uint8_t>) override { return true; }
  bool scatter(std::span<const std::uint8_t>, std::span<const Segment>) override { return true; }
  std::optional<std::uint64_t> compare_swap(std::uint64_t, std::uint64_t, std::uint64_t) override {
    return 0;
  }
  std::optional<std::uint64_t> fetch_add(std::uint64_t, std::uint64_t) override { return 0; }
  bool store(std::uint64_t, std::uint64_t) override { return true; }
  std::uint32_t next() override { return random_ = random_ * 1664525 + 1013904223; }
  std::span<std::uint8_t> reserve(const packet::Flow&, Qpn, std::size_t) override { return {}; }
  void commit() override {}
  [[nodiscard]] bool full() const override { return true; }

  Rnic rnic;
  CompletionQueue cq;
  PdId pd;
  std::vector<MemoryRegion> regions;
  std::vector<QueuePair*> qps;
  std::vector<SharedReceiveQueue*> srqs;
  std::vector<Key> windows;
  std::vector<XrcdId> xrcds;

 private:
  std::uint32_t random_ = 7;
};

/// What a set-up call returned; its object, if there is one, goes to `keep`.
template <typename T, typename Keep>
Status kept(Result<T> result, Keep keep) {
  if (!result) return result.error();
  keep(*result);
  return Ok{};
}

/// Rings are made by constructors, which have nothing to return.
Status thrown(const std::function<void()>& make) {
  try {
    make();
    return Ok{};
  } catch (const std::bad_alloc&) {
    return Error{ENOMEM, "out of memory"};
  }
}

struct Call {
  const char* name;
  void (*prepare)(Fixture&);
  Status (*run)(Fixture&);
  bool allocates = true;
};

void nothing(Fixture&) {}
void bring_up(Fixture& f) { f.bring_up(); }

const Call kCalls[] = {
    {"alloc_pd", nothing,
     [](Fixture& f) {
       return kept(f.rnic.alloc_pd(), [&](PdId pd) { (void)f.rnic.dealloc_pd(pd); });
     }},
    {"register_memory", nothing,
     [](Fixture& f) {
       return kept(f.make_region(), [&](const MemoryRegion& r) { f.regions.push_back(r); });
     }},
    {"reregister_memory", nothing,
     [](Fixture& f) {
       return kept(f.rnic.reregister_memory(f.regions[0].key, {}, {}, 0u),
                   [&](const MemoryRegion& r) { f.regions[0] = r; });
     },
     false},
    {"alloc_window", nothing,
     [](Fixture& f) {
       return kept(f.rnic.alloc_window(f.pd, MemoryRegion::Type::window_2),
                   [&](Key key) { f.windows.push_back(key); });
     }},
    {"create_srq", nothing,
     [](Fixture& f) {
       return kept(
           f.rnic.create_srq(
               {.pd = f.pd, .depth = 8, .max_sge = 4, .xrc_cq = &f.cq, .xrcd = f.xrcds.front()}),
           [&](SharedReceiveQueue* srq) { f.srqs.push_back(srq); });
     }},
    {"open_xrcd", nothing,
     [](Fixture& f) {
       return kept(f.rnic.open_xrcd(), [&](XrcdId xrcd) { f.xrcds.push_back(xrcd); });
     }},
    {"create_qp", nothing,
     [](Fixture& f) {
       return kept(f.rnic.create_qp(f.init(QpType::rc)),
                   [&](QueuePair* qp) { f.qps.push_back(qp); });
     }},
    {"attach_multicast", nothing,
     [](Fixture& f) {
       return f.rnic.attach_multicast(f.ud(), IpAddress::v4({239, 1, 1, 1}));
     }},
    {"RESET to INIT", nothing, [](Fixture& f) { return f.to_init(); }, false},
    {"INIT to RTR", [](Fixture& f) { ASSERT_TRUE(f.to_init().ok()); },
     [](Fixture& f) { return f.to_rtr(); }, false},
    {"RTR to RTS", [](Fixture& f) { ASSERT_TRUE(f.to_init().ok() && f.to_rtr().ok()); },
     [](Fixture& f) { return f.to_rts(); }, false},
    {"RTS to SQD", bring_up,
     [](Fixture& f) { return f.modify(QpState::sqd, Attr::kNotifyDrained); }, false},
    {"RTS to ERR", bring_up, [](Fixture& f) { return f.modify(QpState::error, 0); }, false},
    {"RTS to RESET", bring_up, [](Fixture& f) { return f.modify(QpState::reset, 0); }, false},
    {"completion queue", nothing,
     [](Fixture&) { return thrown([] { const CompletionQueue another(16); }); }},
    {"resize of a completion queue", nothing,
     [](Fixture& f) { return thrown([&] { EXPECT_TRUE(f.cq.resize(32)); }); }},
};

class NoMemory : public testing::TestWithParam<Call> {};

TEST_P(NoMemory, IsToldAndChangesNothing) {
  const Call& call = GetParam();
  SCOPED_TRACE(call.name);
  for (const bool lasting : {false, true}) {
    std::uint32_t n = 0;
    for (bool struck = true; struck; ++n) {
      ASSERT_LT(n, 1000u) << "it never has enough";
      Fixture f;
      call.prepare(f);
      const QpState before = f.rc().state.load();
      shortage = {.active = true, .lasting = lasting, .left = n};
      const Status status = call.run(f);
      struck = shortage.struck;
      shortage = {};
      if (struck) {
        ASSERT_FALSE(status.ok()) << "allocation " << n << " failed and nobody noticed";
        EXPECT_EQ(status.error().code, ENOMEM) << status.error().message;
        EXPECT_EQ(f.rc().state.load(), before);
        EXPECT_TRUE(call.run(f).ok()) << "after allocation " << n << " had failed";
      } else {
        EXPECT_TRUE(status.ok());
      }
      f.dismantle();
    }
    EXPECT_TRUE(n > 1 || !call.allocates) << "no allocation was seen: the test proves nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Setup, NoMemory, testing::ValuesIn(kCalls),
                         [](const testing::TestParamInfo<Call>& call) {
                           std::string name = call.param.name;
                           for (char& c : name) {
                             if (c == ' ') c = '_';
                           }
                           return name;
                         });

TEST(Multicast, GroupGoesWithItsLastQueuePair) {
  Fixture f;
  for (std::uint32_t i = 0; i < Limits::kMaxMulticastGroups + 1; ++i) {
    const auto byte = [&](unsigned shift) { return static_cast<std::uint8_t>(i >> shift); };
    QueuePair* qp = f.rnic.create_qp(f.init(QpType::ud)).value();
    ASSERT_TRUE(f.rnic.attach_multicast(*qp, IpAddress::v4({239, byte(16), byte(8), byte(0)})).ok())
        << "group " << i;
    ASSERT_TRUE(f.rnic.destroy_qp(*qp, f).ok());
  }
}

}  // namespace
}  // namespace verbena::engine
