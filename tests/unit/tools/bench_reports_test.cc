// verbena bench: JSON, CSV, table, page and comparison of made-up results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/bench_results.h"
#include "tools/bench/columns.h"
#include "tools/bench/compare.h"
#include "tools/bench/csv.h"
#include "tools/bench/page.h"
#include "tools/bench/results_json.h"
#include "tools/bench/table.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<double> around(double value) {
  return {value * 0.97, value, value * 1.02, value * 0.99, value * 1.01, value * 0.98};
}

Results usual(double rdma = 20, double tcp = 5) {
  return results({measured(stream("rdma"), "gb_per_s", around(rdma)),
                  measured(stream("tcp"), "gb_per_s", around(tcp)),
                  measured(latency("rdma"), "p50_us", around(0.8)),
                  measured(latency("tcp"), "p50_us", around(3))});
}

TEST(BenchJson, HasEveryRoundAndComesBack) {
  Results before = usual();
  before.measured[0].rounds[2] = std::nullopt;  // failed
  before.measured[2].rounds[0]->times.add(800);
  before.skipped.push_back({stream("ucx"), "there is no ucx_perftest here"});
  const auto json = json_of(before);
  EXPECT_EQ(json["schema"], "verbena-bench-1");
  const auto& first = json["measurements"][0];
  EXPECT_TRUE(first["figures"]["gb_per_s"]["rounds"][2].is_null());
  EXPECT_EQ(first["figures"]["gb_per_s"]["median"], 19.8);  // of the five others
  EXPECT_EQ(json["measurements"][2]["histogram_ns"][0][1], 1);
  EXPECT_EQ(json["skipped"][0]["why"], "there is no ucx_perftest here");

  const Results after = results_of(json.dump(), "old.json");
  ASSERT_EQ(after.measured.size(), before.measured.size());
  EXPECT_EQ(after.measured[0].spec, before.measured[0].spec);
  EXPECT_EQ(after.measured[0].values("gb_per_s"), before.measured[0].values("gb_per_s"));
  EXPECT_FALSE(after.measured[0].rounds[2].has_value());
  EXPECT_EQ(after.machine, before.machine);
}

std::string complaint_about(const std::string& text) {
  try {
    static_cast<void>(results_of(text, "old.json"));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(BenchJson, WrongFilesAreNamed) {
  for (const char* const text :
       {"", "{", "[]", "7", R"({"schema":"other"})", R"({"schema":"verbena-bench-1"})"}) {
    EXPECT_THAT(complaint_about(text), testing::AllOf(testing::StartsWith("old.json: "),
                                                      HasSubstr("verbena bench --json")))
        << text;
  }
}

TEST(BenchCsv, OneLineForEachFigure) {
  const std::string text = csv_of(usual());
  EXPECT_EQ(std::ranges::count(text, '\n'), 5);
  EXPECT_THAT(text, HasSubstr("\"rdma bandwidth write RC auto 65536 B, depth 64, queue pairs 1, "
                              "polling\",rdma,bandwidth,write,RC,polling,auto,65536,64,1,0,"
                              "gb_per_s,19.9,19.4,20.4,6\r\n"));
}

TEST(BenchTable, EachMeasurementIsInOneSection) {
  Spec many = stream("rdma");
  many.queue_pairs = 8;
  Spec lossy = stream("rdma");
  lossy.loss_percent = 1;
  for (const Spec& spec : {stream("rdma"), stream("tcp"), latency("rdma"), many, lossy}) {
    EXPECT_EQ(std::ranges::count_if(sections(), [&](const auto& s) { return s.contains(spec); }),
              1);
  }
}

TEST(BenchTable, SaysHowManyTimesTcpOrThatNoiseIsLarger) {
  EXPECT_THAT(table_of(usual()), HasSubstr("4.00\n"));
  Results noisy = usual();
  noisy.measured[0] = measured(stream("rdma"), "gb_per_s", {20, 4, 30, 3, 25, 2});
  EXPECT_THAT(table_of(noisy), HasSubstr("≈\n"));
  Results few = results(
      {measured(stream("rdma"), "gb_per_s", {20, 21}), measured(stream("tcp"), "gb_per_s", {5, 5})},
      2);
  EXPECT_THAT(table_of(few), HasSubstr("(4.10)\n"));
  EXPECT_THAT(table_of(few), HasSubstr("2 rounds are too few to conclude"));
}

// What slows the machine for a while slows both: the ratios are of rounds.
TEST(BenchTable, RatiosArePaired) {
  const Results drifting = results({measured(stream("rdma"), "gb_per_s", {20, 10, 5, 20, 10, 5}),
                                    measured(stream("tcp"), "gb_per_s", {10, 5, 2.5, 10, 5, 2.5})});
  const auto ratio = ratio_of(drifting.measured[0], drifting.measured[1], "gb_per_s");
  ASSERT_TRUE(ratio);
  EXPECT_DOUBLE_EQ(ratio->low, 2);
  EXPECT_DOUBLE_EQ(ratio->high, 2);
}

TEST(BenchPage, HoldsTheResultsAndNoTagOfThem) {
  const std::string page = page_of(usual());
  for (const char* const mark : {"@DATA@", "@SCRIPT@", "@STYLE@", "_HASH@"}) {
    EXPECT_THAT(page, Not(HasSubstr(mark)));
  }
  EXPECT_THAT(page, HasSubstr("a \\\"CPU\\\" \\u003c/script>"));
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
}

Change change_of(const Comparison& comparison, const std::string& figure) {
  for (const Change& one : comparison.changes) {
    if (one.figure == figure) return one;
  }
  ADD_FAILURE() << "no change of " << figure;
  return {};
}

TEST(BenchCompare, FindsASlowdown) {
  const Comparison found = compare(usual(20), usual(15));
  EXPECT_EQ(found.slower(), 1u);
  EXPECT_TRUE(change_of(found, "gb_per_s").is_slower());
  EXPECT_FALSE(change_of(found, "p50_us").is_slower());
  EXPECT_THAT(text_of(found, "old.json"), HasSubstr("slower:\n"));
  EXPECT_THAT(text_of(found, "old.json"), HasSubstr("WRITE RC"));
}

TEST(BenchCompare, LessTimeIsFaster) {
  Results after = usual();
  after.measured[2] = measured(latency("rdma"), "p50_us", around(0.5));
  const Comparison found = compare(usual(), after);
  EXPECT_EQ(found.slower(), 0u);
  EXPECT_THAT(text_of(found, "old.json"), HasSubstr("faster:\n"));
  after.measured[2] = measured(latency("rdma"), "p50_us", around(1.5));
  EXPECT_EQ(compare(usual(), after).slower(), 1u);
}

TEST(BenchCompare, NoiseIsNoise) {
  Results noisy = usual();
  noisy.measured[0] = measured(stream("rdma"), "gb_per_s", {8, 21, 10, 20, 9, 19});
  const Comparison found = compare(usual(), noisy);
  EXPECT_EQ(found.slower(), 0u);
  EXPECT_EQ(change_of(found, "gb_per_s").verdict, Verdict::unclear);
  EXPECT_THAT(text_of(found, "old.json"), HasSubstr("the noise is larger than the difference"));
}

// The whole machine is slower: TCP shows it, which has nothing of Verbena.
TEST(BenchCompare, TheMachinesOwnDriftIsNoSlowdown) {
  EXPECT_EQ(compare(usual(20, 5), usual(14, 3.4)).slower(), 0u);
  EXPECT_EQ(compare(usual(20, 5), usual(14, 4.9)).slower(), 1u);
}

TEST(BenchCompare, FewRoundsConcludeNothing) {
  Results few = usual(10);
  for (Measured& one : few.measured) one.rounds.resize(4);
  const Comparison found = compare(usual(20), few);
  EXPECT_EQ(found.slower(), 0u);
  EXPECT_THAT(text_of(found, "old.json"), HasSubstr("too few to conclude"));
}

TEST(BenchCompare, AnotherMachineAndNothingInCommon) {
  Results other = usual();
  other.machine["processor"] = "another";
  EXPECT_THAT(text_of(compare(usual(), other), "old.json"), HasSubstr("can't be compared"));
  EXPECT_THAT(text_of(compare(usual(), results({})), "old.json"),
              HasSubstr("no measurement in common"));
}

}  // namespace
}  // namespace verbena::bench
