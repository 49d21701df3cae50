#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/top_models.h"
#include "tools/top/json.h"
#include "tools/top/rates.h"

namespace verbena::top {
namespace {

using test::made_looks;

TEST(TopRates, ArePerSecondBetweenTheTwoLooks) {
  const Pair looks = made_looks();
  const Process& busy = looks.now.processes[1];
  const auto port = rates_of(looks, busy, busy.ports[0]);
  ASSERT_TRUE(port);
  EXPECT_DOUBLE_EQ(port->sent_bytes.value(), 1e6) << "words of four bytes";
  EXPECT_DOUBLE_EQ(port->sent_packets.value(), 1000);
  EXPECT_DOUBLE_EQ(port->retransmissions.value(), 10);
  EXPECT_DOUBLE_EQ(port->requests.value(), 1000) << "those of its queue pairs";
  EXPECT_FALSE(port->received_packets) << "the device doesn't count it";
  const auto pair = rates_of(&looks.before.processes[1].queue_pairs[0], busy.queue_pairs[0], 2);
  ASSERT_TRUE(pair);
  EXPECT_DOUBLE_EQ(pair->sent_bytes.value(), 1e6);
}

TEST(TopRates, WhatIsNewHasNone) {
  Pair looks = made_looks();
  Process fresh = test::made_process(33, "fresh", 1000);
  EXPECT_FALSE(rates_of(looks, fresh, fresh.ports[0]));
  looks.before = {};
  EXPECT_FALSE(rates_of(looks, looks.now.processes[0], looks.now.processes[0].ports[0]));
  EXPECT_EQ(looks.seconds(), 0);
}

TEST(TopRates, AnotherProcessWithTheSamePidIsNew) {
  Pair looks = made_looks();
  looks.before.processes[1].program = "another";
  const Process& busy = looks.now.processes[1];
  EXPECT_FALSE(rates_of(looks, busy, busy.ports[0]));
  looks = made_looks();
  std::swap(looks.before.processes, looks.now.processes);  // counters go back
  EXPECT_FALSE(rates_of(looks, looks.now.processes[1], looks.now.processes[1].ports[0]));
  EXPECT_EQ(before_of(&looks.before.processes[1], looks.now.processes[1].queue_pairs[0]), nullptr);
}

TEST(TopRates, AProcessThatDidNotAnswerHasNoRatesNextTime) {
  Pair looks = made_looks();
  looks.before.processes[1] = {.pid = 22, .program = "busy", .answers = false, .stopped = true};
  EXPECT_EQ(before_of(looks, looks.now.processes[1]), nullptr);
}

TEST(TopSample, PartsOfTheQueuePairsAreJoined) {
  const auto pair = [](int number) {
    return nlohmann::json::parse(R"({"service":"RC","device":"vb_lo","peer":"","peer_qp":0,
      "way":"","why":"","state":"RESET","send_queue":{"entries":1,"posted":0,"in_flight":0,
      "completed":0},"receive_queue":{"entries":1,"posted":0,"shared":false},"send_cq":null,
      "receive_cq":{"entries":5,"waiting":2},"counters":{"sent_pkts":9},"qp":)" +
                                 std::to_string(number) + "}");
  };
  const nlohmann::json activity{
      {{"pid", 5},
       {"answers", true},
       {"statistics",
        {{"program", "p"},
         {"ports", nlohmann::json::array()},
         {"qps", {pair(1)}},
         {"qps_unlisted", 3}}},
       {"parts", {{{"qps", {pair(2), pair(3)}}}}}},
      {{"pid", 4}, {"answers", false}, {"program", "q"}, {"stopped", true}}};
  const auto processes = processes_of(activity);
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_EQ(processes[0].pid, 4) << "by pid";
  EXPECT_TRUE(processes[0].stopped);
  ASSERT_EQ(processes[1].queue_pairs.size(), 3u);
  EXPECT_EQ(processes[1].unlisted, 1u);
  const QueuePair& last = processes[1].queue_pairs[2];
  EXPECT_EQ(last.number, 3u);
  EXPECT_FALSE(last.send_completions);
  EXPECT_EQ(last.receive_completions->waiting, 2u);
  EXPECT_EQ(value_of(last.counters, "sent_pkts"), 9u);
}

TEST(TopJson, HasCountersRatesAndNullWhereNothingIsKnown) {
  Pair looks = made_looks();
  looks.now.processes.push_back(test::made_process(33, "fresh", 1000));
  const auto j = as_json(looks);
  EXPECT_EQ(j.at("schema"), 1);
  EXPECT_EQ(j.at("interval"), 2.0);
  const auto& busy = j.at("processes").at(1);
  EXPECT_EQ(busy.at("ports")[0].at("counters").at("port_xmit_data"), 750'000);
  EXPECT_EQ(busy.at("ports")[0].at("rates").at("sent_bytes"), 1e6);
  EXPECT_EQ(busy.at("queue_pairs")[0].at("send_queue").at("in_flight"), 5);
  EXPECT_TRUE(j.at("processes").at(2).at("ports")[0].at("rates").is_null());
  EXPECT_EQ(j.at("kernel_ports")[0].at("rates").at("sent_bytes"), 1000.0);
  EXPECT_TRUE(j.at("kernel_ports")[0].at("rates").at("retransmissions").is_null());
}

}  // namespace
}  // namespace verbena::top
