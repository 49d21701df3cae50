// verbena bench: what a few noisy rounds tell, and histograms of times.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tools/bench/histogram.h"
#include "tools/bench/statistics.h"

namespace verbena::bench {
namespace {

// Of tables of the binomial distribution: 1 - 2 P(X < k), X ~ B(n, 1/2).
TEST(BenchCoverage, KnownValues) {
  EXPECT_DOUBLE_EQ(coverage_of(5, 1), 0.9375);
  EXPECT_DOUBLE_EQ(coverage_of(6, 1), 0.96875);
  EXPECT_DOUBLE_EQ(coverage_of(9, 2), 0.9609375);
  EXPECT_NEAR(coverage_of(15, 4), 0.96484375, 1e-12);
  EXPECT_DOUBLE_EQ(coverage_of(1, 1), 0);
}

TEST(BenchInterval, SmallSamplesGoFromLeastToMost) {
  const Interval six = interval_of({5, 1, 4, 2, 3, 6});
  EXPECT_DOUBLE_EQ(six.median, 3.5);
  EXPECT_DOUBLE_EQ(six.low, 1);
  EXPECT_DOUBLE_EQ(six.high, 6);
  EXPECT_DOUBLE_EQ(six.coverage, 0.96875);
  EXPECT_EQ(six.rounds, 6u);
}

TEST(BenchInterval, LargerSamplesLeaveOutTheirEnds) {
  const Interval nine = interval_of({9, 8, 7, 6, 5, 4, 3, 2, 1000});
  EXPECT_DOUBLE_EQ(nine.median, 6);
  EXPECT_DOUBLE_EQ(nine.low, 3);
  EXPECT_DOUBLE_EQ(nine.high, 9);
}

TEST(BenchInterval, OneValueAndNone) {
  const Interval one = interval_of({7});
  EXPECT_DOUBLE_EQ(one.median, 7);
  EXPECT_DOUBLE_EQ(one.low, 7);
  EXPECT_DOUBLE_EQ(one.high, 7);
  EXPECT_DOUBLE_EQ(one.coverage, 0);
  EXPECT_EQ(interval_of({}).rounds, 0u);
}

// Samples of a skewed distribution, as times are, whose median is known: the intervals hold it as
// often as they say.
TEST(BenchInterval, HoldsTheTrueMedianAsOftenAsItSays) {
  std::mt19937 random{20};
  std::lognormal_distribution<double> noise{std::log(10.0), 1.0};  // its median is 10
  constexpr int kSamples = 20'000;
  for (const std::size_t n : {5u, 6u, 9u, 15u, 40u}) {
    int held = 0;
    double coverage = 0;
    for (int i = 0; i < kSamples; ++i) {
      std::vector<double> values(n);
      std::ranges::generate(values, [&] { return noise(random); });
      const Interval interval = interval_of(values);
      coverage = interval.coverage;
      held += interval.low <= 10 && 10 <= interval.high;
    }
    EXPECT_NEAR(static_cast<double>(held) / kSamples, coverage, 0.008) << n << " values";
    EXPECT_TRUE(n < 6 || coverage >= kConfidence) << n << " values: " << coverage;
  }
}

Interval of(double low, double median, double high, std::size_t rounds = 6) {
  return {median, low, high, 0.97, rounds};
}

TEST(BenchVerdict, OfRatios) {
  EXPECT_EQ(verdict_of_ratios(of(1.1, 2, 3)), Verdict::greater);
  EXPECT_EQ(verdict_of_ratios(of(0.2, 0.3, 0.9)), Verdict::less);
  EXPECT_EQ(verdict_of_ratios(of(0.9, 2, 3)), Verdict::unclear);
  EXPECT_EQ(verdict_of_ratios(of(2, 3, 4, 4)), Verdict::too_few);
}

TEST(BenchVerdict, OfTwoRuns) {
  EXPECT_EQ(verdict_of_runs(of(9, 10, 11), of(4, 5, 6), 0.05), Verdict::less);
  EXPECT_EQ(verdict_of_runs(of(4, 5, 6), of(9, 10, 11), 0.05), Verdict::greater);
  EXPECT_EQ(verdict_of_runs(of(4, 5, 9), of(8, 10, 11), 0.05), Verdict::unclear);
  EXPECT_EQ(verdict_of_runs(of(9.9, 10, 10.1), of(10.2, 10.3, 10.4), 0.05), Verdict::same);
  EXPECT_EQ(verdict_of_runs(of(9, 10, 11), of(4, 5, 6), 1.5), Verdict::same);
  EXPECT_EQ(verdict_of_runs(of(9, 10, 11, 4), of(4, 5, 6), 0.05), Verdict::too_few);
}

// Two runs of the same thing: hardly ever a difference.
TEST(BenchVerdict, NoiseIsNoChange) {
  std::mt19937 random{21};
  std::lognormal_distribution<double> noise{0, 0.2};
  int differences = 0;
  constexpr int kPairs = 5000;
  const auto run = [&] {
    std::vector<double> values(6);
    std::ranges::generate(values, [&] { return noise(random); });
    return interval_of(values);
  };
  for (int i = 0; i < kPairs; ++i) {
    differences += verdict_of_runs(run(), run(), 0.05) != Verdict::unclear;
  }
  EXPECT_LT(differences, kPairs / 200);
}

TEST(BenchHistogram, BucketsAreAtMostAThirtySecondWide) {
  for (const std::uint64_t time :
       {std::uint64_t{0}, std::uint64_t{31}, std::uint64_t{32}, std::uint64_t{63},
        std::uint64_t{64}, std::uint64_t{1000}, std::uint64_t{123'456'789}, ~std::uint64_t{0}}) {
    Histogram histogram;
    histogram.add(time);
    const std::uint64_t upper = histogram.quantile(1);
    EXPECT_GE(upper, time);
    EXPECT_LE(upper - time, time / 32) << time;
    Histogram again;
    again.add_bucket(upper, 1);
    EXPECT_EQ(again, histogram) << time;
  }
}

TEST(BenchHistogram, QuantilesAndSums) {
  Histogram first, second;
  for (std::uint64_t time = 1; time <= 20; ++time) first.add(time);
  second.add(1000);
  first.merge(second);
  EXPECT_EQ(first.total(), 21u);
  EXPECT_EQ(first.quantile(0.5), 11u);
  EXPECT_EQ(first.quantile(0), 1u);
  EXPECT_EQ(first.buckets().rbegin()->second, 1u);
  EXPECT_EQ(Histogram{}.quantile(0.5), 0u);
}

}  // namespace
}  // namespace verbena::bench
