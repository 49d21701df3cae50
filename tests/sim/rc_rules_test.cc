// Rules that both ends keep together: what may be in flight, when a request is complete, when
// a timer runs.

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <set>

#include "tests/sim/world.h"
#include "tests/support/datagram.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Attr;
using engine::Completion;
using engine::CompletionStatus;
using engine::EventKind;
using engine::PostResult;
using engine::QpState;
using engine::QpType;
using engine::SendKind;
using engine::Sge;
using packet::Kind;
using packet::Opcode;
using packet::Packet;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kMtu = 1024;

class Pair {
 public:
  explicit Pair(const ConnectOptions& options = {})
      : world{7, {}}, c{world, options}, memory_a(1u << 18), memory_b(1u << 18) {
    std::iota(memory_a.begin(), memory_a.end(), std::uint8_t{1});
    std::iota(memory_b.begin(), memory_b.end(), std::uint8_t{100});
    const unsigned all = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead;
    region_a = c.a.node->expose(c.a.pd, memory_a, all);
    region_b = c.b.node->expose(c.b.pd, memory_b, all);
  }

  [[nodiscard]] Sge piece(std::uint32_t length, std::uint64_t offset = 0) const {
    return {region_a.iova + offset, length, region_a.key};
  }
  engine::SendRequest request(SendKind kind, std::span<const Sge> sges, std::uint64_t id = 1) {
    return {.wr_id = id,
            .kind = kind,
            .signaled = true,
            .remote_address = region_b.iova,
            .rkey = region_b.key,
            .sges = sges};
  }
  void post(SendKind kind, std::uint32_t length, std::uint64_t id = 1) {
    const std::array sges{piece(length)};
    ASSERT_EQ(c.a.send(request(kind, sges, id)), PostResult::posted);
  }
  void receive(std::uint32_t length, std::uint64_t id) {
    const std::array sges{Sge{region_b.iova, length, region_b.key}};
    ASSERT_EQ(c.b.receive({.wr_id = id, .sges = sges}), PostResult::posted);
  }
  std::vector<Completion> wait(End& end, std::size_t n = 1) {
    std::vector<Completion> got;
    EXPECT_TRUE(world.run_until(
        [&] {
          const auto more = end.poll();
          got.insert(got.end(), more.begin(), more.end());
          return got.size() >= n;
        },
        60s))
        << got.size() << " of " << n;
    got.resize(std::max(n, got.size()));
    return got;
  }
  void run(Duration time) {
    (void)world.run_until([] { return false; }, time);
  }

  /// Sees each packet before it leaves; false drops it.
  void watch(const std::function<bool(bool from_a, const Packet&)>& see) {
    world.filter = [this, see](const packet::Flow& flow, std::span<const std::uint8_t> frame) {
      Bytes bytes(frame.begin(), frame.end());
      bytes.resize(bytes.size() + packet::kIcrcSize);
      const auto parsed = packet::parse(bytes);
      return see(flow.source == c.a.node->address(), std::get<Packet>(parsed));
    };
  }
  /// A packet of B's for A that B never sent.
  void forge(Packet p, std::uint32_t size = 0) {
    p.bth.destination = c.a.qp->qpn;
    p.bth.pad = packet::pad_of(size);
    const Bytes payload(size, 0xee);
    p.payload = payload;
    Bytes bytes(packet::frame_size(p.bth.opcode, size) + packet::kIcrcSize);
    packet::encode(p, bytes);
    c.a.node->rnic().receive(test::delivered({.source = c.b.node->address(),
                                              .destination = c.a.node->address(),
                                              .source_port = 0xc000,
                                              .bytes = bytes}),
                             world.now());
  }

  World world;
  Connection c;
  Bytes memory_a;
  Bytes memory_b;
  engine::MemoryRegion region_a;
  engine::MemoryRegion region_b;
};

// ---- what leaves

TEST(RcRequests, FencedRequestWaitsForTheReadBeforeIt) {
  Pair p;
  bool written = false;
  p.watch([&](bool from_a, const Packet& packet) {
    if (from_a && packet.info().kind == Kind::write) {
      written = true;
      EXPECT_TRUE(std::equal(p.memory_a.begin(), p.memory_a.begin() + 5000, p.memory_b.begin()))
          << "the READ is not through";
    }
    return true;
  });
  p.post(SendKind::read, 5000, 1);
  const std::array sges{p.piece(10, 100'000)};
  auto fenced = p.request(SendKind::write, sges, 2);
  fenced.remote_address += 100'000;
  fenced.fence = true;
  ASSERT_EQ(p.c.a.send(fenced), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 2)[1].status, CompletionStatus::success);
  EXPECT_TRUE(written);
}

TEST(RcRequests, FirstFlightFitsTheDefaultReceiveBuffer) {
  Pair p;
  std::uint32_t frames = 0;
  p.watch([&](bool, const Packet&) {
    ++frames;
    return false;
  });
  p.post(SendKind::write, 200 * kMtu);
  p.run(100us);
  EXPECT_GT(frames, 1u);
  EXPECT_LE(frames * engine::Window::truesize(kMtu), 212'992u);
}

enum class Trouble : std::uint8_t { none, loss, notice };

/// Packets that leave without an answer, after a long message that had so much trouble.
int flight_after(Trouble trouble) {
  Pair p;
  int frames = 0;
  p.watch([&](bool from_a, const Packet&) {
    return !from_a || trouble != Trouble::loss || ++frames != 20;
  });
  p.post(SendKind::write, 100 * kMtu, 1);
  (void)p.wait(p.c.a);
  if (trouble == Trouble::notice) {
    Packet cnp;
    cnp.bth.opcode = Opcode::cnp;
    cnp.bth.becn = true;
    p.forge(cnp);
  }
  int flight = 0;
  p.watch([&](bool, const Packet&) {
    ++flight;
    return false;
  });
  p.post(SendKind::write, 200 * kMtu, 2);
  p.run(100us);
  return flight;
}

TEST(RcRequests, LossMakesTheWindowSmaller) {
  EXPECT_LT(flight_after(Trouble::loss), flight_after(Trouble::none));
}

TEST(RcRequests, CongestionNoticeMakesTheWindowSmaller) {
  EXPECT_LT(flight_after(Trouble::notice), flight_after(Trouble::none));
}

TEST(RcRequests, NoMoreReadsAreOutstandingThanAgreed) {
  Pair p{{.rd_atomic = 2}};
  int asked = 0;
  p.watch([&](bool from_a, const Packet&) {
    asked += from_a ? 1 : 0;
    return false;
  });
  for (std::uint64_t id = 0; id < 5; ++id) p.post(SendKind::read, 10, id);
  p.run(100us);
  EXPECT_EQ(asked, 2);
}

TEST(RcRequests, LastPacketAsksForTheAcknowledgement) {
  Pair p;
  const Instant start = p.world.now();
  p.post(SendKind::write, 3 * kMtu);
  EXPECT_EQ(p.wait(p.c.a)[0].status, CompletionStatus::success);
  EXPECT_LE(p.world.now() - start, 2 * 5us);  // there and back
}

TEST(RcRequests, ReadNeedsAWritableBuffer) {
  Pair p;
  Bytes constant(100);
  const auto read_only = p.c.a.node->expose(p.c.a.pd, constant, 0);
  const std::array sges{Sge{read_only.iova, 100, read_only.key}};
  ASSERT_EQ(p.c.a.send(p.request(SendKind::read, sges)), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a)[0].status, CompletionStatus::local_protection_error);
  EXPECT_EQ(p.c.b.node->rnic().counters().rcvd_pkts, 0u);  // it was not even asked for
}

TEST(RcRequests, OneThatCantGoOnFailsWithoutAnAcknowledgement) {
  Pair p;
  Bytes good(2 * kMtu), bad(kMtu);
  const auto pd = p.c.a.node->rnic().alloc_pd().value();
  const auto first = p.c.a.node->expose(p.c.a.pd, good, 0);
  const auto other = p.c.a.node->expose(pd, bad, 0);
  const std::array sges{Sge{first.iova, 2 * kMtu, first.key}, Sge{other.iova, kMtu, other.key}};
  p.watch([](bool from_a, const Packet&) { return from_a; });
  ASSERT_EQ(p.c.a.send(p.request(SendKind::write, sges)), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a)[0].status, CompletionStatus::local_protection_error);
}

TEST(LocalKey, OfAnotherDomainIsRefused) {
  Pair p;
  Bytes bytes(100);
  const auto pd = p.c.a.node->rnic().alloc_pd().value();
  const auto other = p.c.a.node->expose(pd, bytes, Access::kLocalWrite);
  const std::array sges{Sge{other.iova, 100, other.key}};
  ASSERT_EQ(p.c.a.send(p.request(SendKind::write, sges)), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a)[0].status, CompletionStatus::local_protection_error);
}

// ---- timers and retries

TEST(RcTimers, IdleQueuePairNeverTimesOut) {
  Pair p;
  p.post(SendKind::write, 10);
  (void)p.wait(p.c.a);
  p.run(1000s);
  EXPECT_EQ(p.c.a.node->rnic().counters().timeouts, 0u);
  EXPECT_EQ(p.c.a.node->rnic().counters().early_retransmits, 0u);
  EXPECT_EQ(p.c.a.qp->state.load(), QpState::rts);
}

TEST(RcTimers, RetriesBeginAnewWhenThePeerAnswers) {
  Pair p{{.retry_count = 1}};
  std::set<std::uint32_t> seen;
  p.watch([&](bool from_a, const Packet& packet) {
    // The first packet of each message is lost once: one NAK, one retry.
    return !(from_a && packet.info().first && seen.insert(packet.bth.psn.value()).second);
  });
  for (std::uint64_t id = 0; id < 10; ++id) {
    p.post(SendKind::write, 3 * kMtu, id);
    ASSERT_EQ(p.wait(p.c.a)[0].status, CompletionStatus::success) << id;
  }
}

TEST(RcTimers, HoleInReadResponsesCostsOneRetry) {
  Pair p{{.retry_count = 1}};
  bool drop = true;
  p.watch([&](bool from_a, const Packet&) { return from_a || !std::exchange(drop, false); });
  p.post(SendKind::read, 8 * kMtu);
  EXPECT_EQ(p.wait(p.c.a)[0].status, CompletionStatus::success);
  EXPECT_EQ(p.c.a.node->rnic().counters().completer_retry_err, 1u);
}

// ---- completions

TEST(RcCompletions, AckOfWhatWasNeverSentIsDropped) {
  Pair p;
  p.watch([](bool, const Packet&) { return false; });
  p.post(SendKind::write, 10);
  p.run(10us);
  const auto dropped = [&] { return p.c.a.node->rnic().counters().drop_response; };
  Packet ack;
  ack.bth.opcode = Opcode::rc_acknowledge;
  ack.bth.psn = p.c.a.qp->requester.end + 5;
  p.forge(ack);
  p.run(10us);
  EXPECT_EQ(dropped(), 1u);
  EXPECT_TRUE(p.c.a.cq->empty());
  ack.bth.psn = p.c.a.qp->requester.end.previous();
  p.forge(ack);
  EXPECT_EQ(p.wait(p.c.a)[0].status, CompletionStatus::success);
  // And a second time it is of nothing that waits.
  p.forge(ack);
  EXPECT_EQ(dropped(), 2u);
}

TEST(RcCompletions, ReadResponseOfTheWrongLengthIsABadResponse) {
  Pair p;
  p.watch([](bool, const Packet&) { return false; });
  p.post(SendKind::read, 100);
  p.run(10us);
  Packet response;
  response.bth.opcode = Opcode::rc_read_response_only;
  response.bth.psn = p.c.a.qp->requester.end.previous();
  p.forge(response, 60);
  EXPECT_EQ(p.wait(p.c.a)[0].status, CompletionStatus::bad_response);
}

/// What becomes of a request of so many packets that is answered by one with this opcode.
CompletionStatus status_of_answer(SendKind kind, std::uint32_t packets, Opcode opcode,
                                  std::uint32_t nth = 0) {
  Pair p;
  p.watch([](bool, const Packet&) { return false; });
  const bool atomic = kind == SendKind::fetch_add;
  p.post(kind, atomic ? 8 : packets * kMtu);
  p.run(10us);
  Packet response;
  const bool begins_right = nth > 0;
  for (std::uint32_t i = 0; begins_right && i < nth; ++i) {
    response.bth.opcode = i == 0 ? Opcode::rc_read_response_first : Opcode::rc_read_response_middle;
    response.bth.psn = p.c.a.qp->completer.unacked;
    p.forge(response, kMtu);
  }
  response.bth.opcode = opcode;
  response.bth.psn = p.c.a.qp->completer.unacked;
  p.forge(response, opcode == Opcode::rc_atomic_acknowledge ? 0 : kMtu);
  const auto got = p.c.a.poll();
  return got.empty() ? CompletionStatus::general_error : got[0].status;
}

TEST(RcCompletions, AnswerWithAnOpcodeThatDoesNotFitIsABadResponse) {
  constexpr auto kBad = CompletionStatus::bad_response;
  constexpr auto kGood = CompletionStatus::success;
  constexpr auto kGoesOn = CompletionStatus::general_error;  // no completion yet
  const auto read = [](std::uint32_t packets, Opcode opcode, std::uint32_t nth = 0) {
    return status_of_answer(SendKind::read, packets, opcode, nth);
  };
  EXPECT_EQ(read(1, Opcode::rc_read_response_only), kGood);
  EXPECT_EQ(read(1, Opcode::rc_read_response_first), kBad);
  EXPECT_EQ(read(1, Opcode::rc_read_response_last), kBad);
  EXPECT_EQ(read(3, Opcode::rc_read_response_first), kGoesOn);
  EXPECT_EQ(read(3, Opcode::rc_read_response_middle), kBad);
  EXPECT_EQ(read(3, Opcode::rc_read_response_last), kBad);
  EXPECT_EQ(read(3, Opcode::rc_read_response_middle, 1), kGoesOn);
  EXPECT_EQ(read(3, Opcode::rc_read_response_middle, 2), kBad);
  EXPECT_EQ(read(3, Opcode::rc_read_response_last, 2), kGood);
  EXPECT_EQ(read(1, Opcode::rc_atomic_acknowledge), kBad);
  EXPECT_EQ(status_of_answer(SendKind::fetch_add, 1, Opcode::rc_atomic_acknowledge), kGood);
  EXPECT_EQ(status_of_answer(SendKind::fetch_add, 1, Opcode::rc_read_response_only), kBad);
  EXPECT_EQ(status_of_answer(SendKind::write, 1, Opcode::rc_read_response_only), kBad);
}

TEST(RcCompletions, SolicitedIsOfTheLastPacket) {
  Pair p;
  int marked = 0;
  p.watch([&](bool, const Packet& packet) {
    if (packet.bth.solicited) {
      ++marked;
      EXPECT_TRUE(packet.info().last);
    }
    return true;
  });
  p.receive(3 * kMtu, 8);
  p.receive(3 * kMtu, 9);
  const std::array sges{p.piece(3 * kMtu)};
  auto request = p.request(SendKind::send, sges);
  request.solicited = true;
  ASSERT_EQ(p.c.a.send(request), PostResult::posted);
  p.post(SendKind::send, 3 * kMtu, 2);
  const auto got = p.wait(p.c.b, 2);
  EXPECT_TRUE(got[0].solicited);
  EXPECT_FALSE(got[1].solicited);
  EXPECT_EQ(marked, 1);
}

TEST(RcCompletions, HalfFilledReceiveIsFlushedFirst) {
  Pair p;
  int frames = 0;
  p.watch([&](bool, const Packet&) { return ++frames <= 2; });
  for (std::uint64_t id = 1; id < 4; ++id) p.receive(4 * kMtu, id);
  p.post(SendKind::send, 4 * kMtu);
  p.run(100us);
  engine::QpAttributes to;
  to.state = QpState::error;
  ASSERT_TRUE(p.c.b.node->rnic().modify_qp(*p.c.b.qp, to, Attr::kState).ok());
  const auto got = p.wait(p.c.b, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got[i].wr_id, i + 1);
    EXPECT_EQ(got[i].status, CompletionStatus::flushed);
  }
}

// ---- beside RC

TEST(Srq, LimitIsToldOnce) {
  Pair p{{.srq_b = true}};
  ASSERT_TRUE(p.c.b.node->rnic().set_srq_limit(*p.c.b.srq, 3).ok());
  for (std::uint64_t id = 0; id < 4; ++id) p.receive(100, id);
  for (std::uint64_t id = 0; id < 4; ++id) {
    p.post(SendKind::send, 100, id);
    (void)p.wait(p.c.b);
  }
  const auto& events = p.c.b.node->events;
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const auto& e) { return e.kind == EventKind::srq_limit_reached; }),
            1);
}

TEST(UcRules, WriteNeedsTheQueuePairsPermission) {
  Pair p{{.type_a = QpType::uc, .type_b = QpType::uc}};
  ASSERT_TRUE(p.c.b.node->rnic().modify_qp(*p.c.b.qp, {.access = 0}, Attr::kAccess).ok());
  const Bytes before = p.memory_b;
  p.post(SendKind::write, 100);
  (void)p.wait(p.c.a);
  p.run(1ms);
  EXPECT_EQ(p.memory_b, before);
}

}  // namespace
}  // namespace verbena::sim
