// verbena bench: what a plan measures, and specs, which also come from the network.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "tools/bench/plan.h"
#include "tools/bench/progress.h"

namespace verbena::bench {
namespace {

std::set<std::string> ids_of(const Plan& plan) {
  std::set<std::string> ids;
  for (const Spec& spec : plan.specs) ids.insert(id_of(spec));
  return ids;
}

TEST(BenchPlan, NamesEachMeasurementOnceAndNoneThatIsWrong) {
  for (const char* const name : {"quick", "normal", "full"}) {
    const Plan plan = make_plan({.plan = name});
    EXPECT_EQ(ids_of(plan).size(), plan.specs.size()) << name;
    for (const Spec& spec : plan.specs) EXPECT_EQ(problem_of(spec), "") << id_of(spec);
  }
}

TEST(BenchPlan, HasTcpAtEverySizeOfRdma) {
  for (const char* const name : {"quick", "normal", "full"}) {
    std::set<std::uint64_t> rdma, tcp;
    for (const Spec& spec : make_plan({.plan = name}).specs) {
      if (spec.test != "bandwidth") continue;
      if (spec.transport == "rdma") rdma.insert(spec.size);
      if (spec.transport == "tcp") tcp.insert(spec.size);
    }
    EXPECT_EQ(rdma, tcp) << name;
  }
}

TEST(BenchPlan, QuickHasEnoughRoundsToConcludeAndATimeLimit) {
  const Plan plan = make_plan({.plan = "quick"});
  EXPECT_GE(plan.rounds, 6u);
  EXPECT_GT(plan.time_limit, 0);
  EXPECT_LT(plan.time_limit, 60);
}

TEST(BenchPlan, BareLoopsAreForOneHost) {
  for (const Spec& spec : make_plan({.plan = "full", .one_host = false}).specs) {
    EXPECT_TRUE(spec.transport == "rdma" || spec.transport == "tcp" || spec.transport == "udp");
    EXPECT_NE(spec.wire, "udp") << "between hosts everything is UDP";
  }
}

TEST(BenchPlan, WishesAreCombined) {
  const Plan plan = make_plan(
      {.rounds = 3, .sizes = {64, 4096}, .queue_pairs = {1, 8}, .operations = {"write", "read"}});
  EXPECT_EQ(plan.name, "custom");
  EXPECT_EQ(plan.rounds, 3u);
  // Streams: two sizes, two operations, two counts; latencies without counts; TCP of both sizes.
  EXPECT_EQ(plan.specs.size(), 8u + 4u + 2u + 2u);
}

TEST(BenchPlan, OnlyKeepsWhatItFinds) {
  for (const Spec& spec : make_plan({.only = "tcp"}).specs) EXPECT_EQ(spec.transport, "tcp");
  EXPECT_THROW(static_cast<void>(make_plan({.only = "nothing like this"})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(make_plan({.only = "("})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(make_plan({.plan = "slow"})), std::invalid_argument);
}

TEST(BenchSpec, WhatCantBeMeasuredIsSaid) {
  EXPECT_EQ(problem_of({}), "");
  EXPECT_NE(problem_of({.transport = "pigeon"}), "");
  EXPECT_NE(problem_of({.test = "colour"}), "");
  EXPECT_NE(problem_of({.operation = "swim"}), "");
  EXPECT_NE(problem_of({.service = "XX"}), "");
  EXPECT_NE(problem_of({.completion = "hope"}), "");
  EXPECT_NE(problem_of({.wire = "string"}), "");
  EXPECT_NE(problem_of({.size = 0}), "");
  EXPECT_NE(problem_of({.size = std::uint64_t{1} << 40}), "");
  EXPECT_NE(problem_of({.depth = 0}), "");
  EXPECT_NE(problem_of({.depth = 1u << 30}), "");
  EXPECT_NE(problem_of({.queue_pairs = 0}), "");
  EXPECT_NE(problem_of({.queue_pairs = 1u << 30}), "");
  EXPECT_NE(problem_of({.depth = 16384, .queue_pairs = 4096}), "");
  EXPECT_NE(problem_of({.loss_percent = 100}), "");
  EXPECT_NE(problem_of({.seconds = 0}), "");
  EXPECT_NE(problem_of({.seconds = 1e9}), "");
  EXPECT_NE(problem_of({.operation = "write", .service = "UD"}), "");
  EXPECT_NE(problem_of({.operation = "read", .service = "UC"}), "");
  EXPECT_NE(problem_of({.test = "latency", .completion = "events"}), "");
}

TEST(BenchSpec, GoesOverTheNetworkAndBack) {
  const Spec spec{.test = "latency", .operation = "send", .service = "UD", .size = 8, .depth = 1};
  EXPECT_EQ(nlohmann::json::parse(nlohmann::json(spec).dump()).get<Spec>(), spec);
  EXPECT_THROW(static_cast<void>(nlohmann::json::parse("{}").get<Spec>()),
               nlohmann::json::exception);
  EXPECT_THROW(static_cast<void>(nlohmann::json::parse(R"({"transport": 7})").get<Spec>()),
               nlohmann::json::exception);
}

TEST(BenchSpec, Titles) {
  EXPECT_EQ(title_of({.operation = "send", .service = "UD", .completion = "events"}),
            "SEND UD, events");
  EXPECT_EQ(title_of({.wire = "udp", .queue_pairs = 8, .loss_percent = 0.5}),
            "WRITE RC, wire udp, 8 queue pairs, 0.5 % lost");
  EXPECT_EQ(title_of({.transport = "tcp", .completion = "events"}), "TCP, blocking");
  EXPECT_EQ(size_text(61440), "60 KiB");
  EXPECT_EQ(size_text(1 << 20), "1 MiB");
  EXPECT_EQ(size_text(100), "100 B");
}

TEST(BenchProgress, Bar) {
  EXPECT_EQ(bar_of(0, 4), "[....]");
  EXPECT_EQ(bar_of(0.5, 4), "[##..]");
  EXPECT_EQ(bar_of(7, 4), "[####]");
}

}  // namespace
}  // namespace verbena::bench
