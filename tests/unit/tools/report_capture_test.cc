// What a report makes of packets recorded between two kernels: there are no posts and no
// completions, and each packet was seen once, at the requester's side of the wire.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/report/build.h"
#include "tools/report/ladder.h"
#include "tools/report/page.h"
#include "tools/report/summary.h"

namespace verbena::report {
namespace {

namespace fs = std::filesystem;

const fs::path kRecordings{VERBENA_GOLDEN_DIR};

Model model_of(const std::string& name) {
  return build_model(read_files({kRecordings / (name + ".pcap")}));
}

template <typename Flag>
std::vector<std::uint32_t> psns_with(const Model& model, Flag flag) {
  std::vector<std::uint32_t> psns;
  for (const Event& e : model.events) {
    if (flag(e.flags)) psns.push_back(e.psn);
  }
  return psns;
}

TEST(ReportOfARecording, EveryRecordingHasAReport) {
  std::size_t seen = 0;
  for (const auto& entry : fs::directory_iterator{kRecordings}) {
    if (entry.path().extension() != ".pcap") continue;
    SCOPED_TRACE(entry.path());
    ++seen;
    const Model model = build_model(read_files({entry.path()}));
    EXPECT_FALSE(ladder(model, {}, false).empty());
    EXPECT_FALSE(summary(model, 0).empty());
    EXPECT_FALSE(page(model).empty());
    for (const Event& e : model.events) {
      EXPECT_EQ(e.kind, EventKind::packet);
      EXPECT_TRUE(e.flags.one_sided_view);
    }
  }
  EXPECT_GE(seen, 60u);
}

// A packet of nine was taken from the wire behind the capture; the responder asked for it by a NAK.
TEST(ReportOfARecording, ANakTellsWhatWasLostAndWhatWasThrownAway) {
  const Model model = model_of("rc-loss-write");
  EXPECT_EQ(psns_with(model, [](const PacketFlags& f) { return f.lost; }),
            std::vector<std::uint32_t>{4098});
  const auto thrown_away = psns_with(model, [](const PacketFlags& f) { return f.not_taken; });
  const auto again = psns_with(model, [](const PacketFlags& f) { return f.again; });
  ASSERT_FALSE(thrown_away.empty());
  EXPECT_EQ(thrown_away.front(), 4099u);
  // go-back-N: the lost one and all that were thrown away.
  ASSERT_EQ(again.size(), thrown_away.size() + 1);
  EXPECT_EQ(again.front(), 4098u);
  EXPECT_TRUE(std::equal(thrown_away.begin(), thrown_away.end(), again.begin() + 1));
}

TEST(ReportOfARecording, WhoIsToldToWaitSendsAgain) {
  const Model model = model_of("rc-rnr-nak");
  EXPECT_FALSE(psns_with(model, [](const PacketFlags& f) { return f.rnr; }).empty());
  EXPECT_FALSE(psns_with(model, [](const PacketFlags& f) { return f.again; }).empty());
  EXPECT_TRUE(psns_with(model, [](const PacketFlags& f) { return f.lost || f.duplicate; }).empty());
}

// The requester's end is where the connection request came from.
TEST(ReportOfARecording, AConnectionJoinsItsMessagesAndItsQueuePairs) {
  const Model model = model_of("cm-rping");
  ASSERT_EQ(model.conversations.size(), 1u);
  EXPECT_EQ(model.conversations[0].left.address, "10.77.0.3");
  EXPECT_EQ(model.conversations[0].right.address, "10.77.0.2");
  EXPECT_EQ(model.events.front().what, "ConnectRequest");
  EXPECT_EQ(model.events.back().what, "DisconnectReply");
  const auto reads = std::ranges::count(model.requests, "RDMA_READ", &Request::op);
  EXPECT_GT(reads, 0);
  for (const Request& r : model.requests) EXPECT_EQ(r.status, "acknowledged") << r.op;
}

// The length stands in the first packet's RETH, not in the packets behind it.
TEST(ReportOfARecording, AWriteIsAsLongAsItSays) {
  const Model model = model_of("rc-write-9000");
  ASSERT_EQ(model.requests.size(), 1u);
  EXPECT_EQ(model.requests[0].bytes, 9000u);
  EXPECT_EQ(model.requests[0].packets, 9u);
}

// Nobody says what the MTU is: the last response says that a READ is done.
TEST(ReportOfARecording, AReadEndsWithItsLastResponse) {
  const Model model = model_of("rc-read-4x3000");
  ASSERT_EQ(model.requests.size(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const Request& r = model.requests[i];
    Time last = 0;
    for (const Event& e : model.events) {
      if (e.request == i && e.what.ends_with("response last")) last = e.time;
    }
    EXPECT_EQ(r.first_sent + r.on_the_wire, last) << i;
    EXPECT_EQ(r.status, "acknowledged");
  }
}

}  // namespace
}  // namespace verbena::report
