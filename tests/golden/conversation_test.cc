// Conversations that two Linux 6.1 kernels had, with our engine in the place of one of them.
//
// RC, UC and UD. Responder: fed the kernel requester's packets, in order, ours sends what the
// kernel's sent; the completions, the final state and the CRC of the memory are those that NAME.txt
// tells. Requester: given the same work and fed the kernel responder's answers at the same places,
// ours sends what the kernel's sent. "The same" is every byte of BTH … pad, but for the rows of
// this table. The replays refer to it by the first column.
//
// Where the specification leaves freedom, or the two kernels' timing shows:
//
//   acknowledgements      The kernel acknowledges every message. Ours answers once for all that
//                         it has got (IBA 9.7.5.1.2): fed a run of requests at once, an ACK may be
//                         missing when a later answer covers it, or name a later packet with the
//                         same MSN. Fed one request at a time, there is no difference.
//   asked again           A READ or atomic that the requester asks for again in the same run,
//   having
//                         gone back, is answered once; the kernel answers each time.
//   READ again from its   A READ that is repeated from its middle is a request like any other, and
//   middle                ours begins with FIRST or ONLY and an AETH. The kernel goes on with
//                         MIDDLE or LAST; its requester (check_ack in rxe_comp.c) takes both.
//   READ, then WRITE      to the same bytes, without a fence: the specification promises the READ
//                         neither the old nor the new ones (IBA 10.8.3.3). Ours reads when it
//                         sends the response; fed both in one run, that is after the WRITE.
//   AckReq                The kernel sets it in the last packet of a message. Ours sets it there,
//                         too, and where its window closes and at each quarter of it. Where ours
//                         can't go on without, the replay adds the ACK that the kernel's responder
//                         would have sent.
//   window                The kernel sends whatever is posted. Ours begins with a small window and
//                         halves it at a loss; so it may send less of a run than the kernel did,
//                         and the rest when it is acknowledged. Every packet that it sends is
//                         one of the kernel's, in PSN order from where an answer sent it.
//   READs in pieces       Of a READ that is longer than its window ours asks for as much as fits.
//                         The pieces have the kernel's PSNs, addresses and key.
//   under way             What the kernel sent after an answer that makes it go back or fail,
//                         because it had not seen the answer yet. Ours has, and sends nothing.
//   early retransmission  Where the kernel waits for its timer, ours tries before, without
//                         counting it as a retry; the timeouts are as many and as long.
//   GRH                   The IPv4 header in front of a datagram has the identification 0 and the
//                         checksum for it: a UDP socket doesn't show it. All else is the kernel's.
//   MigReq                Ours 1, migrated, as IBA 17.2.8 has it for a queue pair without an
//                         alternate path; the kernel always 0. Ours doesn't look at the peer's.
//
// Where the kernel does more than it must:
//
//   after an RNR NAK      inside a WRITE with immediate, the kernel repeats the packets before it
//                         once, which the NAK has acknowledged; ours doesn't (.redundant).
//
// Where we differ on purpose:
//
//   receive too small     Ours: NAK invalid request, and the receive ends with LOC_LEN_ERR (IBA
//                         9.9.3, the responder's faults). The kernel: NAK remote
//                         operational error and LOC_QP_OP_ERR (rc-recv-too-small).
//   too many READs        More READs at once than max_dest_rd_atomic: ours refuses the first one
//                         too many, NAK invalid request; the kernel serves all (rc-read-too-deep).
//   SEND of a wrong size  FIRST or MIDDLE that isn't full: 6.1 takes it, 6.12 and ours don't (NAK
//                         invalid request). No recording has one; the test cuts a packet.
//
// What a receiver got of a recording with losses: its firewall counted the packets that arrived
// and dropped the n-th, behind the bridge where the recording was made. So the dropped ones are
// in it, the table of rows says which, and their number agrees with the counter in NAME.txt.

#include "tests/golden/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/golden/conversation_replay.h"

#ifndef VERBENA_GOLDEN_DIR
#define VERBENA_GOLDEN_DIR "tests/golden"
#endif

namespace verbena::test {
namespace {

using engine::Access;
using engine::CompletionStatus;
using engine::QpType;
using packet::NakCode;
using packet::Syndrome;

constexpr std::uint64_t kWord = 0x1122'3344'5566'7788;

const Row kRows[] = {
    {.name = "rc-send-0"},
    {.name = "rc-send-1"},
    {.name = "rc-send-1024"},
    {.name = "rc-send-1025"},
    {.name = "rc-send-9000"},
    {.name = "rc-send-9000-mtu256", .mtu = 256},
    {.name = "rc-send-9000-mtu4096", .mtu = 4096},
    {.name = "rc-send-pads"},
    {.name = "rc-send-imm"},
    {.name = "rc-send-solicited"},
    {.name = "rc-send-inv",
     .region_access = Access::kLocalWrite | Row::kRemote | Access::kBindWindow,
     .window = true},
    {.name = "rc-send-fence", .fenced = 2},
    {.name = "rc-send-burst"},
    {.name = "rc-send-ipv6"},
    {.name = "rc-write-0"},
    {.name = "rc-write-100"},
    {.name = "rc-write-9000"},
    {.name = "rc-write-imm"},
    {.name = "rc-read-0"},
    {.name = "rc-read-1"},
    {.name = "rc-read-9000"},
    {.name = "rc-read-4x3000"},
    {.name = "rc-read-too-deep"},
    {.name = "rc-fetch-add", .word = kWord},
    {.name = "rc-cmp-swap", .word = kWord},
    {.name = "rc-mixed"},
    {.name = "rc-psn-wrap"},
    {.name = "rc-rnr-nak", .receives_before = 37},
    {.name = "rc-rnr-write-imm", .receives_before = 45, .redundant = 2},
    {.name = "rc-rnr-exceeded", .rnr_retry = 2},
    {.name = "rc-bad-rkey-write"},
    {.name = "rc-bad-rkey-read"},
    {.name = "rc-bad-rkey-atomic", .word = kWord},
    {.name = "rc-bad-range-write"},
    {.name = "rc-bad-range-read"},
    {.name = "rc-no-perm-write", .region_access = Access::kLocalWrite | Access::kRemoteRead},
    {.name = "rc-qp-no-read", .qp_access = Access::kRemoteWrite},
    {.name = "rc-recv-too-small",
     .receive_length = 100,
     .differs = Difference{.kernel = Syndrome::nak(NakCode::remote_operational_error),
                           .ours = Syndrome::nak(NakCode::invalid_request),
                           .receive = CompletionStatus::local_length_error}},
    {.name = "rc-no-such-qp", .retry_count = 2, .times_out = true},
    {.name = "rc-loss-send", .responder_loses = {3, 14, 31}},
    {.name = "rc-loss-write", .responder_loses = {3, 27, 61}},
    {.name = "rc-loss-read", .requester_loses = {3, 14, 31}},
    {.name = "rc-loss-atomic", .word = kWord, .requester_loses = {2, 7}},
    {.name = "uc-send-1", .type = QpType::uc},
    {.name = "uc-send-9000", .type = QpType::uc},
    {.name = "uc-send-imm", .type = QpType::uc},
    {.name = "uc-write-9000", .type = QpType::uc},
    {.name = "uc-write-imm", .type = QpType::uc},
    {.name = "ud-send-100", .type = QpType::ud},
    {.name = "ud-send-1024", .type = QpType::ud},
    {.name = "ud-send-imm", .type = QpType::ud},
    {.name = "ud-send-ipv6", .type = QpType::ud},
    {.name = "ud-bad-qkey", .type = QpType::ud, .unused_receives = 1},
};

class GoldenConversation : public testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    conversation_ = Conversation::read(GetParam().name);
    ASSERT_TRUE(conversation_.has_value());
  }
  std::optional<Conversation> conversation_;
};

TEST_P(GoldenConversation, OurResponderAnswersAsTheKernels) {
  replay_responder(GetParam(), *conversation_, Pace::one_by_one);
}

TEST_P(GoldenConversation, OurResponderAnswersRunsOfRequestsAsTheKernels) {
  replay_responder(GetParam(), *conversation_, Pace::in_runs);
}

TEST_P(GoldenConversation, OurRequesterSendsAsTheKernels) {
  replay_requester(GetParam(), *conversation_);
}

/// A recording that nobody plays proves nothing.
TEST(GoldenConversationSet, HasARowForEveryRecordingOfOneQueuePair) {
  for (const auto& file : std::filesystem::directory_iterator{VERBENA_GOLDEN_DIR}) {
    const std::string name = file.path().stem();
    const bool one_pair =
        name.starts_with("rc-") || name.starts_with("uc-") || name.starts_with("ud-");
    if (file.path().extension() != ".pcap" || !one_pair) continue;
    EXPECT_TRUE(std::ranges::any_of(kRows, [&](const Row& row) { return row.name == name; }))
        << name;
  }
}

/// Table, "too many READs". One at a time, each is answered before the next comes.
TEST(GoldenConversationDifference, OneReadTooManyIsRefused) {
  const Row row{.name = "rc-read-too-deep", .max_dest_rd_atomic = 1};
  const auto conversation = Conversation::read(row.name);
  ASSERT_TRUE(conversation.has_value());
  replay_responder(row, *conversation, Pace::one_by_one);

  std::vector<std::string> lines;
  for (const auto& frame : answers_of_ours(row, *conversation, Pace::in_runs)) {
    lines.push_back(text_of(frame));
  }
  EXPECT_THAT(lines, testing::ElementsAre(
                         "RC READ response first qp 0x000103 psn 0x001000 ack msn 1 payload 1024",
                         "RC READ response middle qp 0x000103 psn 0x001001 payload 1024",
                         "RC READ response last qp 0x000103 psn 0x001002 ack msn 1 payload 952",
                         "RC ACKNOWLEDGE qp 0x000103 psn 0x001003 nak invalid request msn 1"));
}

/// Table, "SEND of a wrong size".
TEST(GoldenConversationDifference, SendThatIsNotFullIsRefused) {
  const Row row{.name = "rc-send-9000"};
  auto conversation = Conversation::read(row.name);
  ASSERT_TRUE(conversation.has_value());
  auto& middle = conversation->frames.at(1).captured.payload;
  middle.erase(middle.end() - 8, middle.end() - 4);  // the payload's last bytes, before the ICRC

  std::vector<std::string> lines;
  for (const auto& frame : answers_of_ours(row, *conversation, Pace::one_by_one)) {
    lines.push_back(text_of(frame));
  }
  EXPECT_THAT(lines, testing::ElementsAre(
                         "RC ACKNOWLEDGE qp 0x0000d8 psn 0x001001 nak invalid request msn 0"));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenConversation, testing::ValuesIn(kRows),
                         [](const testing::TestParamInfo<Row>& row) {
                           std::string name = row.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace verbena::test
