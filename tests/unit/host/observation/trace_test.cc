#include "host/observation/trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace verbena::host {
namespace {

using nlohmann::json;

struct TraceTest : testing::Test {
  TraceTest() {
    std::string name = std::filesystem::temp_directory_path() / "trace-test.XXXXXX";
    folder = ::mkdtemp(name.data());
  }
  ~TraceTest() override { std::filesystem::remove_all(folder); }

  std::vector<json> lines() {
    trace->write();
    std::vector<json> all;
    std::ifstream in{folder / "trace"};
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
    return all;
  }

  std::filesystem::path folder;
  std::unique_ptr<Trace> trace;
  const engine::QueuePair qp{Qpn{0x123456}, engine::QpInit{}};
};

TEST_F(TraceTest, EveryEventIsAnObjectWithTimeAndName) {
  trace = std::move(Trace::open(folder / "trace").value());
  const std::array sges{engine::Sge{.length = 30}, engine::Sge{.length = 12}};
  trace->posted(
      Instant{Duration{5}}, qp,
      engine::SendRequest{.wr_id = ~0ull, .kind = engine::SendKind::bind_window, .sges = sges});
  trace->posted(Instant{Duration{6}}, qp, engine::ReceiveRequest{.wr_id = 2, .sges = sges});
  packet::Packet ack;
  ack.bth.opcode = packet::Opcode::rc_acknowledge;
  ack.bth.destination = Qpn{7};
  ack.bth.psn = Psn{99};
  ack.aeth = {packet::Syndrome::nak(packet::NakCode::remote_access_error), 5};
  trace->sent(qp, ack, 0, true);
  trace->received(qp, ack);
  trace->retried(qp, engine::RetryCause::timeout, Psn{3});
  trace->completed({.wr_id = 4,
                    .status = engine::CompletionStatus::general_error,
                    .kind = engine::CompletionKind::receive_write_immediate,
                    .byte_count = 8,
                    .qpn = Qpn{1}});
  trace->state_changed(qp, engine::QpState::reset, engine::QpState::error);

  const auto all = lines();
  ASSERT_EQ(all.size(), 8u);
  for (const json& line : all) {
    EXPECT_TRUE(line.at("t").is_number_integer()) << line;
    EXPECT_TRUE(line.at("event").is_string()) << line;
  }
  EXPECT_EQ(all[0].at("event"), "start");
  EXPECT_EQ(all[1], json::parse(R"({"t":5,"event":"post_send","qp":1193046,
    "wr_id":18446744073709551615,"op":"BIND_MW","bytes":42,"signaled":false,"inline":false,
    "fence":false,"solicited":false})"));
  EXPECT_EQ(all[2], json::parse(R"({"t":6,"event":"post_recv","qp":1193046,"wr_id":2,
    "bytes":42})"));
  EXPECT_EQ(all[3].at("event"), "sent");
  EXPECT_EQ(all[3].at("again"), true);
  EXPECT_EQ(all[3].at("syndrome"), "nak remote access error");
  EXPECT_EQ(all[3].at("psn"), 99);
  EXPECT_EQ(all[4].at("event"), "received");
  EXPECT_EQ(all[4].at("destination_qp"), 7);
  EXPECT_EQ(all[5].at("cause"), "timeout");
  EXPECT_EQ(all[6].at("status"), "GENERAL_ERR");
  EXPECT_EQ(all[6].at("op"), "RECV_RDMA_WITH_IMM");
  EXPECT_EQ(all[7].at("to"), "ERR");
}

TEST_F(TraceTest, AFullDiskIsSaidAtTheStart) {
  const auto opened = Trace::open("/dev/full");
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("No space left"), std::string::npos);
}

}  // namespace
}  // namespace verbena::host
