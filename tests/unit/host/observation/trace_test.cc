#include "host/observation/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "host/queue_pair.h"
#include "packet/cm_mad.h"
#include "tests/support/folder.h"

namespace verbena::host {
namespace {

using nlohmann::json;

constexpr IpAddress kHere = IpAddress::v4({10, 0, 0, 1});
constexpr IpAddress kThere = IpAddress::v4({10, 0, 0, 2});

struct TraceTest : testing::Test {
  /// What it wrote, without the first line and without the fields that all lines have.
  std::vector<json> lines() {
    trace->write();
    std::vector<json> all;
    std::ifstream in{folder.file("trace")};
    for (std::string line; std::getline(in, line);) {
      json one = json::parse(line);
      EXPECT_TRUE(one.at("t").is_number_integer()) << line;
      EXPECT_EQ(one.at("pid"), ::getpid()) << line;
      EXPECT_TRUE(one.at("event").is_string()) << line;
      one.erase("pid");
      all.push_back(std::move(one));
    }
    EXPECT_EQ(all.at(0).at("event"), "start");
    all.erase(all.begin());
    return all;
  }
  /// The only line, without its time.
  json only_line() {
    auto all = lines();
    EXPECT_EQ(all.size(), 1u);
    all.at(0).erase("t");
    return all.at(0);
  }

  static packet::Packet nak() {
    packet::Packet p;
    p.bth.opcode = packet::Opcode::rc_acknowledge;
    p.bth.destination = Qpn{7};
    p.bth.psn = Psn{99};
    p.aeth = {packet::Syndrome::nak(packet::NakCode::remote_access_error), 5};
    return p;
  }
  /// With an ICRC of zeros.
  static std::vector<std::uint8_t> frame_of(const packet::Packet& p) {
    std::vector<std::uint8_t> frame(packet::frame_size(p.bth.opcode, p.payload.size()) +
                                    packet::kIcrcSize);
    packet::encode(p, frame);
    return frame;
  }

  static packet::Datagram datagram_of(std::span<const std::uint8_t> frame) {
    return {.source = kThere, .destination = kHere, .bytes = frame};
  }

  test::Folder folder;
  std::unique_ptr<Trace> trace = std::move(Trace::open(folder.file("trace")).value());
  QueuePair qp{Qpn{0x1a2}, engine::QpInit{}, nullptr, 0};
};

TEST_F(TraceTest, TheFirstLineSaysWhoWritesAndWhen) {
  trace->write();
  std::ifstream in{folder.file("trace")};
  const json start = json::parse(in);
  EXPECT_EQ(start.at("event"), "start");
  EXPECT_EQ(start.at("version"), 2);
  EXPECT_EQ(start.at("pid"), ::getpid());
  EXPECT_GT(start.at("wall").get<std::int64_t>(), std::int64_t{1'700'000'000} * 1'000'000'000);
  EXPECT_NE(start.at("program"), "");
  EXPECT_NE(start.at("host"), "");
  EXPECT_EQ(start.at("boot").get<std::string>().size(), 36u);
}

TEST_F(TraceTest, PostsHaveTheTimeOfTheCall) {
  const std::array sges{engine::Sge{.length = 30}, engine::Sge{.length = 12}};
  trace->posted(
      Instant{Duration{5}}, qp,
      engine::SendRequest{.wr_id = ~0ull, .kind = engine::SendKind::bind_window, .sges = sges});
  trace->posted(Instant{Duration{6}}, qp, engine::ReceiveRequest{.wr_id = 2, .sges = sges});
  const auto all = lines();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0], json::parse(R"({"t":5,"event":"post_send","qp":"0x0001a2",
    "wr_id":"18446744073709551615","op":"BIND_MW","bytes":42,"signaled":false,"inline":false,
    "fence":false,"solicited":false})"));
  EXPECT_EQ(all[1], json::parse(R"({"t":6,"event":"post_recv","qp":"0x0001a2","wr_id":"2",
    "bytes":42})"));
}

TEST_F(TraceTest, FramesHaveTheirHeaders) {
  const packet::Packet p = nak();
  trace->sent(qp, {}, p, 0, true);
  const auto frame = frame_of(p);
  trace->received(qp, datagram_of(frame), p);
  auto all = lines();
  ASSERT_EQ(all.size(), 2u);
  for (json& line : all) line.erase("t");
  EXPECT_EQ(all[0], json::parse(R"({"event":"sent","qp":"0x0001a2","destination_qp":"0x000007",
    "opcode":"RC ACKNOWLEDGE","psn":99,"bytes":0,"ack_request":false,"again":true,
    "syndrome":"nak remote access error","msn":5,"headers":"1140ffff000000070000006362000005"})"));
  all[0].erase("again");
  all[0]["event"] = "received";
  EXPECT_EQ(all[1], all[0]);
}

TEST_F(TraceTest, DatagramsNameTheirPeer) {
  QueuePair ud{Qpn{3}, engine::QpInit{.type = engine::QpType::ud}, nullptr, 0};
  packet::Packet p;
  p.bth.opcode = packet::Opcode::ud_send_only;
  trace->sent(ud, {.source = kHere, .destination = kThere}, p, 8, false);
  const auto frame = frame_of(p);
  trace->received(ud, datagram_of(frame), p);
  const auto all = lines();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].at("peer"), "::ffff:10.0.0.2");
  EXPECT_EQ(all[0].at("bytes"), 8);
  EXPECT_EQ(all[1].at("peer"), "::ffff:10.0.0.2");
}

TEST_F(TraceTest, ConnectionMessagesAreWhole) {
  const packet::MadBytes mad = packet::encode_cm({.transaction = 1, .message = packet::CmRtu{}});
  packet::Packet p;
  p.bth.opcode = packet::Opcode::ud_send_only;
  p.bth.destination = packet::kGsiQpn;
  p.deth = {packet::kGsiQkey, packet::kGsiQpn};
  p.payload = mad;
  trace->message_sent({.source = kHere, .destination = kThere}, p, true);
  const auto frame = frame_of(p);
  const packet::Datagram d = datagram_of(frame);
  trace->message_received(Instant{Duration{9}}, d);
  trace->message_dropped("drop_state", d);
  const auto all = lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].at("event"), "sent");
  EXPECT_EQ(all[0].at("again"), true);
  EXPECT_EQ(all[1].at("event"), "received");
  EXPECT_EQ(all[1].at("t"), 9);
  for (const json& line : {all[0], all[1]}) {
    EXPECT_EQ(line.at("cm"), "ReadyToUse");
    EXPECT_EQ(line.at("qp"), "0x000001");
    EXPECT_EQ(line.at("peer_qp"), "0x000001");
    EXPECT_EQ(line.at("local"), "::ffff:10.0.0.1");
    EXPECT_EQ(line.at("peer"), "::ffff:10.0.0.2");
    EXPECT_EQ(line.at("bytes"), 256);
    EXPECT_EQ(line.at("headers").get<std::string>().size(), 2u * (12 + 8 + 256));
  }
  EXPECT_EQ(all[2].at("reason"), "drop_state");
  EXPECT_EQ(all[2].at("qp"), "0x000001");
}

TEST_F(TraceTest, WaysAndWhyTheyAreTaken) {
  trace->chose_way(qp, {packet::Way::host, packet::Detour::none});
  trace->chose_way(qp, {packet::Way::network, packet::Detour::other_host});
  trace->answers_by(qp, packet::Way::host);
  auto all = lines();
  ASSERT_EQ(all.size(), 3u);
  for (json& line : all) line.erase("t");
  EXPECT_EQ(all[0], json::parse(R"({"event":"way","qp":"0x0001a2","of":"requests","way":"shm"})"));
  EXPECT_EQ(all[1], json::parse(R"({"event":"way","qp":"0x0001a2","of":"requests","way":"udp",
    "why":"other_host"})"));
  EXPECT_EQ(all[2], json::parse(R"({"event":"way","qp":"0x0001a2","of":"answers","way":"shm"})"));
}

TEST_F(TraceTest, ADroppedPacketOfAQueuePair) {
  const packet::Packet p = nak();
  trace->dropped({.reason = "drop_source", .qp = &qp, .packet = &p});
  EXPECT_EQ(only_line(), json::parse(R"({"event":"dropped","reason":"drop_source","qp":"0x0001a2",
    "destination_qp":"0x000007","opcode":"RC ACKNOWLEDGE","psn":99,"bytes":0,"ack_request":false,
    "syndrome":"nak remote access error","msn":5,"headers":"1140ffff000000070000006362000005"})"));
}

TEST_F(TraceTest, ADamagedFrameAsFarAsItCanBeRead) {
  packet::Packet p;
  p.bth.opcode = packet::Opcode::rc_send_only;
  p.bth.destination = Qpn{7};
  p.bth.psn = Psn{99};
  p.bth.pad = 1;
  const std::array<std::uint8_t, 3> payload{};
  p.payload = payload;
  auto frame = frame_of(p);
  trace->struck(wire::Fault::corrupt, frame);
  frame[0] = 0xfe;  // no opcode
  trace->dropped("icrc_errors", datagram_of(frame));
  frame[1] |= 0x0f;  // no version
  trace->dropped("icrc_errors", datagram_of(frame));
  frame.resize(5);
  trace->dropped("malformed", datagram_of(frame));
  trace->dropped({.reason = "drop_malformed", .bytes = frame});
  auto all = lines();
  ASSERT_EQ(all.size(), 5u);
  for (json& line : all) line.erase("t");
  EXPECT_EQ(all[0], json::parse(R"({"event":"fault","kind":"corrupt","destination_qp":"0x000007",
    "opcode":"RC SEND only","psn":99,"bytes":3,"headers":"0450ffff0000000700000063"})"));
  EXPECT_EQ(all[1], json::parse(R"({"event":"dropped","reason":"icrc_errors",
    "destination_qp":"0x000007","psn":99,"bytes":3,"headers":"fe50ffff0000000700000063"})"));
  EXPECT_EQ(all[2], json::parse(R"({"event":"dropped","reason":"icrc_errors","bytes":4,
    "headers":"fe5fffff0000000700000063"})"));
  EXPECT_EQ(all[3], json::parse(R"({"event":"dropped","reason":"malformed","bytes":0,
    "headers":"fe"})"));
  EXPECT_EQ(all[4], json::parse(R"({"event":"dropped","reason":"drop_malformed","bytes":0,
    "headers":"fe"})"));
}

TEST_F(TraceTest, ADroppedEthernetFrameHasNoHeadersOfOurs) {
  QueuePair raw{Qpn{3}, engine::QpInit{.type = engine::QpType::raw_packet}, nullptr, 0};
  const std::array<std::uint8_t, 60> frame{};
  trace->dropped({.reason = "drop_state", .qp = &raw, .bytes = frame});
  EXPECT_EQ(only_line(), json::parse(R"({"event":"dropped","reason":"drop_state","qp":"0x000003",
    "bytes":60})"));
}

TEST_F(TraceTest, RetriesAndCompletions) {
  trace->retried(qp, engine::RetryCause::timeout, Psn{3});
  trace->completed({.wr_id = 4,
                    .status = engine::CompletionStatus::general_error,
                    .kind = engine::CompletionKind::receive_write_immediate,
                    .byte_count = 8,
                    .qpn = Qpn{1}});
  auto all = lines();
  ASSERT_EQ(all.size(), 2u);
  for (json& line : all) line.erase("t");
  EXPECT_EQ(all[0], json::parse(R"({"event":"retry","qp":"0x0001a2","cause":"timeout","psn":3})"));
  EXPECT_EQ(all[1], json::parse(R"({"event":"completion","qp":"0x000001","wr_id":"4",
    "status":"GENERAL_ERR","op":"RECV_RDMA_WITH_IMM","bytes":8})"));
}

TEST_F(TraceTest, TheLifeOfAQueuePair) {
  trace->created(qp);
  qp.device = "vb_lo";
  qp.state = engine::QpState::rtr;
  qp.attributes.flow = {.source = kHere, .destination = *IpAddress::parse("fd00::1")};
  qp.attributes.dest_qpn = Qpn{0xabc};
  qp.attributes.path_mtu = 512;
  trace->state_changed(qp, engine::QpState::init, engine::QpState::rtr);
  trace->destroyed(qp);
  auto all = lines();
  ASSERT_EQ(all.size(), 3u);
  for (json& line : all) line.erase("t");
  EXPECT_EQ(all[0], json::parse(R"({"event":"state","qp":"0x0001a2","from":"","to":"RESET",
    "type":"RC"})"));
  EXPECT_EQ(all[1], json::parse(R"({"event":"state","qp":"0x0001a2","from":"INIT","to":"RTR",
    "type":"RC","device":"vb_lo","local":"::ffff:10.0.0.1","peer":"fd00::1","peer_qp":"0x000abc",
    "mtu":512})"));
  EXPECT_EQ(all[2].at("from"), "RTR");
  EXPECT_EQ(all[2].at("to"), "DESTROYED");
}

TEST(Trace, AFullDiskIsSaidAtTheStart) {
  const auto opened = Trace::open("/dev/full");
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("No space left"), std::string::npos);
}

}  // namespace
}  // namespace verbena::host
