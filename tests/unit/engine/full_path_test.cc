// A path that is full holds up the queue pairs on it, and nobody else.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "base/entropy.h"
#include "engine/rnic.h"
#include "memory/null_memory.h"

namespace verbena::engine {
namespace {

using namespace std::chrono_literals;

IpAddress host(std::uint8_t last) { return IpAddress::v4({10, 0, 0, last}); }

/// Counts frames by destination.
class Paths final : public packet::FrameSink {
 public:
  std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn to, std::size_t size) override {
    ++asked;
    if (no_room || full_paths.contains(flow.destination)) return {};
    frame_.resize(size);
    sent_to.push_back(to);
    return frame_;
  }
  void commit() override {}
  bool full() const override { return no_room; }

  std::set<IpAddress> full_paths;
  bool no_room = false;
  std::vector<Qpn> sent_to;
  int asked = 0;

 private:
  std::vector<std::uint8_t> frame_;
};

struct Numbers final : Entropy {
  std::uint32_t next() override { return random = random * 1664525 + 1013904223; }
  std::uint32_t random = 7;
};

class FullPath : public testing::Test {
 protected:
  FullPath() : pd{rnic.alloc_pd().value()} {}

  /// A connected queue pair with `packets` empty WRITEs to send.
  QueuePair& sender(const IpAddress& to, std::uint32_t dest_qpn, int packets) {
    QueuePair& qp = *rnic.create_qp({.pd = pd,
                                     .send_cq = &cq,
                                     .receive_cq = &cq,
                                     .max_send = 64,
                                     .max_receive = 1,
                                     .max_send_sge = 1,
                                     .max_receive_sge = 1,
                                     .type = QpType::uc})
                         .value();
    QpAttributes a{.state = QpState::init};
    a.flow = {.source = host(1), .destination = to, .source_port = 0xC000};
    a.dest_qpn = Qpn{dest_qpn};
    EXPECT_TRUE(
        rnic.modify_qp(qp, a, Attr::kState | Attr::kAccess | Attr::kPort | Attr::kPkeyIndex).ok());
    a.state = QpState::rtr;
    EXPECT_TRUE(
        rnic.modify_qp(qp, a,
                       Attr::kState | Attr::kPath | Attr::kPathMtu | Attr::kDestQpn | Attr::kRqPsn)
            .ok());
    a.state = QpState::rts;
    EXPECT_TRUE(rnic.modify_qp(qp, a, Attr::kState | Attr::kSqPsn).ok());
    for (int i = 0; i < packets; ++i) {
      EXPECT_EQ(rnic.post_send(qp, {.kind = SendKind::write}), PostResult::posted);
    }
    return qp;
  }
  [[nodiscard]] std::ptrdiff_t sent_to(std::uint32_t qpn) const {
    return std::ranges::count(paths.sent_to, Qpn{qpn});
  }

  memory::NullMemory nowhere;
  Numbers numbers;
  Rnic rnic{1, nowhere, numbers};
  CompletionQueue cq{256};
  PdId pd;
  Paths paths;
  const Instant start{1s};
};

TEST_F(FullPath, HoldsUpItsOwnQueuePairsOnly) {
  paths.full_paths = {host(2)};
  sender(host(2), 0x22, 3);
  sender(host(3), 0x33, 3);
  while (rnic.work(paths, start) && sent_to(0x33) < 3) {
  }
  EXPECT_EQ(sent_to(0x33), 3);
  EXPECT_EQ(sent_to(0x22), 0);
  EXPECT_FALSE(rnic.work(paths, start)) << "nothing else is left to do";
  EXPECT_TRUE(rnic.has_work());

  paths.full_paths.clear();
  EXPECT_TRUE(rnic.work(paths, start)) << "with nobody else to serve, they try at once";
  EXPECT_EQ(sent_to(0x22), 3);
}

TEST_F(FullPath, IsTriedAgainWhileOthersSend) {
  paths.full_paths = {host(2)};
  sender(host(2), 0x22, 1);
  QueuePair& busy = sender(host(3), 0x33, 1);
  (void)rnic.work(paths, start);
  paths.full_paths.clear();
  (void)rnic.post_send(busy, {.kind = SendKind::write});
  (void)rnic.work(paths, start);
  EXPECT_EQ(sent_to(0x22), 0) << "not at once: others have a turn";
  (void)rnic.post_send(busy, {.kind = SendKind::write});
  (void)rnic.work(paths, start + 1ms);
  EXPECT_EQ(sent_to(0x22), 1);
}

TEST_F(FullPath, OfManyCostsNobodyElseATurn) {
  for (std::uint8_t i = 0; i < 100; ++i) {
    paths.full_paths.insert(host(static_cast<std::uint8_t>(100 + i)));
    sender(host(static_cast<std::uint8_t>(100 + i)), 1000u + i, 1);
  }
  sender(host(3), 0x33, 1);
  (void)rnic.work(paths, start);
  EXPECT_EQ(sent_to(0x33), 1);
}

TEST_F(FullPath, IsNotLookedForWhenTheSinkIsFull) {
  paths.no_room = true;
  sender(host(2), 0x22, 1);
  sender(host(3), 0x33, 1);
  EXPECT_FALSE(rnic.work(paths, start));
  EXPECT_EQ(paths.asked, 1);
}

TEST_F(FullPath, IsForgottenWithItsQueuePair) {
  paths.full_paths = {host(2)};
  QueuePair& qp = sender(host(2), 0x22, 1);
  EXPECT_FALSE(rnic.work(paths, start));
  ASSERT_TRUE(rnic.destroy_qp(qp, paths).ok());
  EXPECT_FALSE(rnic.has_work());
  EXPECT_TRUE(rnic.work(paths, start + 1s));
}

}  // namespace
}  // namespace verbena::engine
