#include "host/observation/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace verbena::host {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Made : QueuePair {
  explicit Made(std::uint32_t n) : QueuePair{Qpn{n}, {}, nullptr, n} { device = "vb_lo"; }
};

void destroy(PairRecords& records, const QueuePair& qp) {
  if (records.lists_more()) records.list(pair_of(qp));
  records.add(qp.device, qp.counters);
}

Statistics sample() {
  Made first{0x11};
  Made second{0x22};
  PairRecords records;
  records.expect("vb_lo");
  first.attributes.flow.destination = IpAddress::v4({10, 0, 0, 1});
  first.attributes.dest_qpn = Qpn{0x33};
  first.counters.sent_pkts = 7;
  first.counters.retransmitted_pkts = 2;
  destroy(records, first);
  second.counters.sent_pkts = 100;
  Statistics s;
  s.pid = 99;
  s.program = "a \"quoted\"\nname";
  records.fill(s, {pair_of(second)});
  return s;
}

TEST(Statistics, APortIsTheSumOfItsQueuePairsLiveAndGone) {
  const Statistics s = sample();
  ASSERT_EQ(s.ports.size(), 1u);
  EXPECT_EQ(s.ports[0].device, "vb_lo");
  EXPECT_EQ(s.ports[0].counters.sent_pkts, 107u);
  ASSERT_EQ(s.pairs.size(), 2u);
  EXPECT_EQ(s.pairs[0].qpn, Qpn{0x11});
  EXPECT_EQ(s.pairs[0].counters.sent_pkts, 7u);
}

TEST(Statistics, JsonHasEveryCounterUnderTheKernelsName) {
  const json j = json::parse(as_json(sample()));
  EXPECT_EQ(j.at("program"), "a \"quoted\"\nname");
  EXPECT_EQ(j.at("pid"), 99);
  EXPECT_EQ(j.at("qps").size(), 2u);
  EXPECT_EQ(j.at("qps")[0].at("qp"), 0x11);
  EXPECT_EQ(j.at("qps")[0].at("peer"), "10.0.0.1");
  EXPECT_EQ(j.at("qps")[0].at("peer_qp"), 0x33);
  const json& counters = j.at("ports")[0].at("hw_counters");
  EXPECT_EQ(counters.at("sent_pkts"), 107);
  for (const char* name :
       {"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err",
        "send_rnr_err", "rcvd_seq_err", "ack_deferred", "retry_exceeded_err",
        "retry_rnr_exceeded_err", "completer_retry_err", "send_err", "rdma_sends", "rdma_recvs"}) {
    EXPECT_TRUE(counters.contains(name)) << name;
  }
}

TEST(Statistics, SayWhichWayConnectionsTakeAndWhy) {
  static constexpr packet::Course kHost{packet::Way::host, packet::Detour::none};
  static constexpr packet::Course kCaptured{packet::Way::network, packet::Detour::capture};
  static constexpr packet::Course kElsewhere{packet::Way::network, packet::Detour::other_host};
  std::vector<std::unique_ptr<Made>> made;
  std::vector<Statistics::Pair> pairs;
  const auto pair = [&](packet::Course expected, auto change) {
    Made& qp = *made.emplace_back(std::make_unique<Made>(0x10u + made.size()));
    qp.attributes.flow.destination = IpAddress::v4({10, 0, 0, 1});
    change(qp);
    pairs.push_back(pair_of(qp, expected));
  };
  pair(kHost, [](Made&) {});                                       // idle
  pair(kHost, [](Made& qp) { qp.requester.course = kCaptured; });  // what it did counts
  pair(kElsewhere, [](Made& qp) {                                  // only answers
    qp.responder.way_known = true;
    qp.responder.way = packet::Way::host;
  });
  pair(kHost, [](Made& qp) { qp.responder.way_known = true; });        // asked by the network
  pair(kHost, [](Made& qp) { qp.attributes.flow.destination = {}; });  // without a peer
  Statistics s;
  PairRecords{}.fill(s, pairs);
  const json j = json::parse(as_json(s));
  EXPECT_EQ(j.at("ports")[0].at("connections"), (json{{"shm", 2}, {"udp", 2}}));
  const std::vector<std::pair<std::string, std::string>> expected{
      {"shm", ""}, {"udp", "capture"}, {"shm", ""}, {"udp", "peer_declines"}, {"", ""}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(j.at("qps")[i].at("way"), expected[i].first) << i;
    EXPECT_EQ(j.at("qps")[i].at("why"), expected[i].second) << i;
  }
  EXPECT_THAT(as_table(s), AllOf(HasSubstr(", by shm\n"), HasSubstr(", by udp: --pcap\n")));
}

TEST(Statistics, AQueuePairThatIsThereSaysWhatItIsDoing) {
  engine::CompletionQueue cq{100};
  EXPECT_EQ(cq.push({}), engine::CompletionQueue::Pushed::quietly);
  QueuePair qp{Qpn{0x11}, {.send_cq = &cq, .max_send = 10, .max_receive = 20}, nullptr, 0};
  qp.state = engine::QpState::rts;
  qp.counters.sent_pkts = 7;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(qp.sq.post({}, false), engine::PostResult::posted);
  qp.requester.wqe = 2;
  EXPECT_EQ(qp.rq.post({}), engine::PostResult::posted);
  Statistics::Pair pair = pair_of(qp);
  pair.activity = activity_of(qp);
  const json j = json::parse(pairs_as_json({pair})).at("qps").at(0);
  EXPECT_EQ(j.at("state"), "RTS");
  EXPECT_EQ(j.at("send_queue"),
            (json{{"entries", 10}, {"posted", 3}, {"in_flight", 2}, {"completed", 0}}));
  EXPECT_EQ(j.at("receive_queue"), (json{{"entries", 20}, {"posted", 1}, {"shared", false}}));
  EXPECT_EQ(j.at("send_cq"), (json{{"entries", 100}, {"waiting", 1}}));
  EXPECT_EQ(j.at("receive_cq"), nullptr);
  EXPECT_EQ(j.at("counters"), (json{{"sent_pkts", 7}})) << "zeros only take room";
}

TEST(Statistics, TheTableLeavesZerosOut) {
  const std::string table = as_table(sample());
  EXPECT_THAT(table, AllOf(HasSubstr("process 99"), HasSubstr("0x000011"), HasSubstr("vb_lo/1"),
                           HasSubstr("10.0.0.1 qp 0x000033"), HasSubstr("retransmitted_pkts")));
  EXPECT_THAT(table, Not(HasSubstr("rcvd_rnr_err")));
}

TEST(Statistics, MoreQueuePairsThanAreRememberedAreInTheSums) {
  PairRecords records;
  records.expect("vb_lo");
  for (std::uint32_t i = 0; i < PairRecords::kMax + 10; ++i) {
    Made made{i};
    made.counters.sent_pkts = 1;
    destroy(records, made);
  }
  Statistics s;
  records.fill(s, {});
  EXPECT_EQ(s.pairs.size(), PairRecords::kMax);
  EXPECT_EQ(s.unlisted, 10u);
  EXPECT_EQ(s.ports.at(0).counters.sent_pkts, PairRecords::kMax + 10);
  EXPECT_THAT(as_table(s), HasSubstr("4100 more queue pairs"));
}

TEST(Statistics, SumsAreKeptThoughNobodyWantsAList) {
  PairRecords records{0};
  records.expect("vb_lo");
  Made made{1};
  made.counters.sent_pkts = 5;
  destroy(records, made);
  EXPECT_EQ(records.sum_of("vb_lo").sent_pkts, 5u);
  EXPECT_EQ(records.sum_of("vb_eth0").sent_pkts, 0u);
  Statistics s;
  records.fill(s, {});
  EXPECT_TRUE(s.pairs.empty());
  EXPECT_EQ(s.unlisted, 1u);
}

}  // namespace
}  // namespace verbena::host
