#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/unit/tools/top_models.h"
#include "tools/top/http_request.h"
#include "tools/top/metrics_server.h"
#include "tools/top/prometheus.h"

namespace verbena::top {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Metrics, CountersOfProcessesQueuePairsAndDevices) {
  const std::string text = as_metrics(test::made_looks().now, 10);
  EXPECT_THAT(text, AllOf(HasSubstr("# TYPE verbena_port_sent_bytes_total counter\n"),
                          HasSubstr("verbena_port_sent_bytes_total{pid=\"22\",program=\"busy\","
                                    "device=\"vb_lo\",port=\"1\"} 3000000\n"),
                          HasSubstr("qp=\"0x000016\"} 3000000\n"), HasSubstr("reason=\"no_qp\"} 3"),
                          HasSubstr("verbena_kernel_port_sent_bytes_total{device=\"mlx5_0\","
                                    "port=\"1\"} 6000\n"),
                          HasSubstr("event=\"rnr_nak_retry_err\"} 4\n")));
}

TEST(Metrics, LabelsAreEscaped) {
  const Sample sample{.processes = {test::made_process(1, "a\"b\\c\nd", 0)}};
  EXPECT_THAT(as_metrics(sample, 1), HasSubstr(R"(program="a\"b\\c\nd")"));
}

TEST(Metrics, QueuePairsAreBoundedAndTheRestIsCounted) {
  Process process = test::made_process(1, "p", 0);
  for (std::uint32_t i = 0; i < 9; ++i) process.queue_pairs.push_back(test::made_pair(100 + i, 0));
  process.unlisted = 5;
  const std::string text = as_metrics({.processes = {process}}, 4);
  EXPECT_THAT(text, AllOf(HasSubstr("unlisted_queue_pairs{pid=\"1\",program=\"p\"} 11\n"),
                          HasSubstr("0x000066"), Not(HasSubstr("qp=\"0x000067\"}"))));
  EXPECT_THAT(as_metrics({}, 4), HasSubstr("verbena_processes 0\n"));
}

std::string answer(std::string_view request) {
  return answer_to(request, [] { return std::string{"page\n"}; }).value_or("more");
}

TEST(MetricsHttp, GetAndHead) {
  EXPECT_THAT(answer("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("version=0.0.4"),
                    HasSubstr("Content-Length: 5\r\n"), testing::EndsWith("\r\n\r\npage\n")));
  EXPECT_THAT(answer("HEAD /metrics?x=1 HTTP/1.0\n\n"),
              AllOf(HasSubstr("Content-Length: 5\r\n"), Not(HasSubstr("page"))));
}

TEST(MetricsHttp, WhatIsWrongIsSaid) {
  EXPECT_EQ(answer("GET /metrics HTTP/1.1\r\nHost: x\r\n"), "more");
  EXPECT_THAT(answer("GET /other HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(answer("POST /metrics HTTP/1.1\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET, HEAD")));
  for (const char* const bad : {"\r\n\r\n", "GET\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
                                "G\1T / HTTP/1.1\n\n", "GET /a b HTTP/1.1\n\n", "GET / FTP\n\n"}) {
    EXPECT_THAT(answer(bad), StartsWith("HTTP/1.1 400")) << bad;
  }
  EXPECT_THAT(answer("GET / HTTP/2.0\r\n\r\n"), StartsWith("HTTP/1.1 505"));
  EXPECT_THAT(answer(std::string(kMaxRequest + 1, 'a')), StartsWith("HTTP/1.1 431"));
}

TEST(MetricsHttp, AnyBytesAreAnswered) {
  const std::string good = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  std::mt19937 dice{7};
  int fine = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good;
    for (auto n = dice() % 4; n > 0; --n) bad[dice() % bad.size()] = static_cast<char>(dice());
    bad.resize(dice() % 8 == 0 ? dice() % bad.size() : bad.size());
    const std::string told = answer(bad);
    EXPECT_TRUE(told == "more" || told.starts_with("HTTP/1.1 ")) << told;
    fine += told.starts_with("HTTP/1.1 200") ? 1 : 0;
  }
  EXPECT_GT(fine, 1000) << "those that weren't changed";
}

TEST(MetricsHttp, ListenAddresses) {
  EXPECT_TRUE(parse_listen_address("127.0.0.1:9464").loopback);
  EXPECT_TRUE(parse_listen_address("127.8.8.8:0").loopback);
  EXPECT_TRUE(parse_listen_address("[::1]:9464").loopback);
  for (const char* const open : {"0.0.0.0:1", "[::]:1", "10.0.0.1:65535"}) {
    const auto where = parse_listen_address(open);
    EXPECT_TRUE(where.problem.empty() && !where.loopback) << open;
  }
  for (const char* const bad : {"", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                                "127.0.0.1:x", "localhost:1", "::1:9464", "[::1:9", "127.1:80"}) {
    EXPECT_FALSE(parse_listen_address(bad).problem.empty()) << bad;
  }
}

}  // namespace
}  // namespace verbena::top
