// What a report makes of the lines of a trace: which arrival belongs to which departure, what is a
// duplicate, and whose queue pair it was.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tools/report/build.h"
#include "tools/report/filter.h"

namespace verbena::report {
namespace {

constexpr auto kAck = "1140ffff000000110000000a1f000001";
constexpr auto kRnr = "1140ffff000000110000000a27000000";
constexpr auto kSend = "0440ffff000000128000000a";

/// Two processes on one machine: 1 has the queue pair 0x000011, 2 has 0x000012.
class TraceLines {
 public:
  TraceLines() {
    path_ = testing::TempDir() + "report_packets." + std::to_string(getpid());
    for (const int pid : {1, 2}) {
      lines_ += R"({"t":0,"pid":)" + std::to_string(pid) +
                R"(,"event":"start","version":2,"wall":0,"program":"p","host":"h","boot":"b"})" +
                "\n";
    }
  }
  TraceLines(const TraceLines&) = delete;
  TraceLines& operator=(const TraceLines&) = delete;
  ~TraceLines() { std::remove(path_.c_str()); }

  TraceLines& connected() {
    for (const int me : {1, 2}) {
      line(me, "state",
           R"("from":"INIT","to":"RTR","type":"RC","device":"vb_lo","local":"::ffff:10.0.0.1",)"
           R"("peer":"::ffff:10.0.0.1","peer_qp":"0x00001)" +
               std::to_string(3 - me) + R"(","mtu":1024)");
    }
    return *this;
  }

  TraceLines& state(int pid, const std::string& from, const std::string& to) {
    return line(pid, "state", R"("from":")" + from + R"(","to":")" + to + R"(","type":"RC")");
  }

  TraceLines& packet(int pid, const std::string& event, const std::string& opcode,
                     const std::string& headers, int to, const std::string& more = "") {
    return line(pid, event,
                R"("destination_qp":"0x00001)" + std::to_string(to) + R"(","opcode":")" + opcode +
                    R"(","psn":)" + std::to_string(psn_) +
                    R"(,"bytes":0,"ack_request":false,"headers":")" + headers + "\"" + more);
  }

  /// Of the packets that follow.
  TraceLines& psn(int psn) {
    psn_ = psn;
    return *this;
  }

  [[nodiscard]] Model model() const {
    std::ofstream{path_} << lines_;
    return build_model(read_files({path_}));
  }

 private:
  TraceLines& line(int pid, const std::string& event, const std::string& fields) {
    now_ += 1000;
    lines_ += R"({"t":)" + std::to_string(now_) + R"(,"pid":)" + std::to_string(pid) +
              R"(,"event":")" + event + R"(","qp":"0x00001)" + std::to_string(pid) + "\"," +
              fields + "}\n";
    return *this;
  }

  std::string path_, lines_;
  std::int64_t now_ = 0;
  int psn_ = 10;
};

std::vector<Event> packets(const Model& model) {
  std::vector<Event> found;
  for (const Event& e : model.events) {
    if (e.kind == EventKind::packet) found.push_back(e);
  }
  return found;
}

// A frame that is dropped late has two lines, `received` and `dropped`, and is one packet.
TEST(PacketsOfATrace, OneThatIsDroppedAfterTheFirstChecksArrivesOnce) {
  TraceLines t;
  t.connected()
      .packet(2, "sent", "RC ACKNOWLEDGE", kAck, 1)
      .packet(1, "received", "RC ACKNOWLEDGE", kAck, 1)
      .packet(2, "sent", "RC ACKNOWLEDGE", kAck, 1)
      .packet(1, "received", "RC ACKNOWLEDGE", kAck, 1)
      .packet(1, "dropped", "RC ACKNOWLEDGE", kAck, 1, R"(,"reason":"drop_response")");
  const auto seen = packets(t.model());
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_FALSE(seen[0].flags.ignored);
  EXPECT_TRUE(seen[1].flags.ignored);
  EXPECT_EQ(seen[1].note, "drop_response");
  for (const Event& e : seen) EXPECT_FALSE(e.flags.duplicate || e.flags.lost);
}

TEST(PacketsOfATrace, OneThatIsDroppedAtOnceIsAPacketOfItsOwn) {
  TraceLines t;
  t.connected()
      .packet(2, "sent", "RC ACKNOWLEDGE", kAck, 1)
      .packet(2, "sent", "RC ACKNOWLEDGE", kAck, 1)
      .packet(1, "received", "RC ACKNOWLEDGE", kAck, 1)
      .packet(1, "dropped", "RC ACKNOWLEDGE", kAck, 1, R"(,"reason":"drop_state")");
  const auto seen = packets(t.model());
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_FALSE(seen[0].flags.dropped || seen[0].flags.lost);
  EXPECT_EQ(seen[1].note, "drop_state");
}

TEST(PacketsOfATrace, WhatTheNetworkDoublesIsADuplicate) {
  TraceLines t;
  t.connected()
      .packet(1, "sent", "RC SEND only", kSend, 2)
      .packet(2, "received", "RC SEND only", kSend, 2)
      .packet(2, "received", "RC SEND only", kSend, 2);
  const auto seen = packets(t.model());
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_FALSE(seen[0].flags.duplicate);
  EXPECT_TRUE(seen[1].flags.duplicate);
}

TEST(PacketsOfATrace, OfTwoThatLeftTheOneThatArrivesIsTheNewer) {
  TraceLines t;
  t.connected()
      .packet(1, "sent", "RC SEND only", kSend, 2, R"(,"again":false)")
      .packet(1, "sent", "RC SEND only", kSend, 2, R"(,"again":true)")
      .packet(2, "received", "RC SEND only", kSend, 2);
  const auto seen = packets(t.model());
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_TRUE(seen[0].flags.lost);
  EXPECT_FALSE(seen[1].flags.lost || seen[1].flags.duplicate);
}

TEST(PacketsOfATrace, ARepetitionAfterARefusalIsNoDuplicate) {
  for (const bool refused : {true, false}) {
    TraceLines t;
    t.connected()
        .packet(1, "sent", "RC SEND only", kSend, 2, R"(,"again":false)")
        .packet(2, "received", "RC SEND only", kSend, 2);
    if (refused) {
      t.packet(2, "sent", "RC ACKNOWLEDGE", kRnr, 1)
          .packet(1, "received", "RC ACKNOWLEDGE", kRnr, 1);
    }
    t.packet(1, "sent", "RC SEND only", kSend, 2, R"(,"again":true)")
        .packet(2, "received", "RC SEND only", kSend, 2);
    const auto seen = packets(t.model());
    ASSERT_EQ(seen.size(), refused ? 3u : 2u);
    EXPECT_EQ(seen.back().flags.duplicate, !refused);
  }
}

// go-back-N: what is behind a gap arrives and is thrown away, before the NAK and after it.
TEST(PacketsOfATrace, WhatFollowsAGapIsNotTaken) {
  constexpr auto kNak = "1140ffff000000110000000a60000000";
  TraceLines t;
  t.connected().packet(1, "sent", "RC SEND only", kSend, 2, R"(,"again":false)");
  const auto send = [&](int psn, bool again) {
    const std::string more = again ? R"(,"again":true)" : R"(,"again":false)";
    t.psn(psn)
        .packet(1, "sent", "RC SEND only", kSend, 2, more)
        .packet(2, "received", "RC SEND only", kSend, 2);
  };
  send(11, false);
  t.psn(10).packet(2, "sent", "RC ACKNOWLEDGE", kNak, 1);
  send(12, false);
  for (const int psn : {10, 11, 12}) send(psn, true);
  const auto seen = packets(t.model());
  ASSERT_EQ(seen.size(), 7u);
  EXPECT_TRUE(seen[0].flags.lost);
  EXPECT_TRUE(seen[1].flags.not_taken && seen[3].flags.not_taken);
  for (const std::size_t i : {4u, 5u, 6u}) {
    EXPECT_TRUE(seen[i].flags.again);
    EXPECT_FALSE(seen[i].flags.not_taken || seen[i].flags.duplicate) << i;
  }
}

// Hanging up moves a queue pair to ERR, and so does a failure.
TEST(StatesOfATrace, AnEndOfTheConnectionIsNoSignOfTrouble) {
  for (const bool hangs_up : {true, false}) {
    TraceLines t;
    t.connected()
        .packet(1, "sent", "RC SEND only", kSend, 2)
        .packet(2, "received", "RC SEND only", kSend, 2);
    Model model = t.state(1, "RTS", "ERR").model();
    Event& state = model.events.back();
    ASSERT_EQ(state.kind, EventKind::state);
    if (hangs_up) {
      Event goodbye = packets(model).front();
      goodbye.what = "DisconnectRequest";
      model.events.insert(model.events.begin(), goodbye);
      name_orderly_ends(model);
    }
    EXPECT_EQ(is_error(model.events.back()), !hangs_up);
    EXPECT_EQ(model.events.back().what, hangs_up ? "RTS → ERR, disconnected" : "RTS → ERR");
  }
}

// Two files of one packet, whose clocks were compared with an error of some microseconds.
TEST(PacketsOfATrace, AnArrivalMayComeAMomentBeforeItsDeparture) {
  TraceLines t;
  t.connected()
      .packet(2, "sent", "RC ACKNOWLEDGE", kAck, 1)
      .packet(1, "received", "RC ACKNOWLEDGE", kAck, 1)
      .packet(1, "received", "RC ACKNOWLEDGE", kAck, 1)
      .packet(2, "sent", "RC ACKNOWLEDGE", kAck, 1);
  const auto seen = packets(t.model());
  ASSERT_EQ(seen.size(), 2u);
  for (const Event& e : seen) EXPECT_FALSE(e.flags.lost || e.flags.duplicate);
}

// No line names the address of a datagram queue pair, nor its peer before the first datagram.
TEST(PacketsOfATrace, DatagramsJoinTheQueuePairsOfBothEnds) {
  TraceLines t;
  const std::string headers = "6440ffff000000120000000a1234567800000011";
  t.packet(1, "sent", "UD SEND only", headers, 2, R"(,"peer":"::ffff:10.0.0.2")")
      .packet(2, "received", "UD SEND only", headers, 2, R"(,"peer":"::ffff:10.0.0.1")");
  const Model model = t.model();
  ASSERT_EQ(model.conversations.size(), 1u);
  const Conversation& c = model.conversations[0];
  EXPECT_TRUE(c.left.traced && c.right.traced);
  EXPECT_EQ(c.left.address, "10.0.0.1");
  EXPECT_EQ(c.right.address, "10.0.0.2");
}

}  // namespace
}  // namespace verbena::report
