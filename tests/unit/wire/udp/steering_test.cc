// Several processes behind one address: each frame reaches its own.

#include "wire/udp/steering.h"

#include "registry/names.h"
#include "tests/support/station.h"
#include "wire/udp/reuseport_group.h"

namespace verbena::wire::test {
namespace {

class SharedAddress : public testing::Test {
 protected:
  explicit SharedAddress(std::size_t count = 8) {
    for (std::size_t i = 0; i < count; ++i) {
      members.push_back(std::make_unique<Station>(address));
    }
  }

  [[nodiscard]] Stations all() {
    Stations stations{&sender};
    for (auto& m : members) stations.push_back(m.get());
    return stations;
  }

  /// `rounds` frames to every member, each from another source port.
  void send_to_each(int rounds) {
    for (auto& m : members) {
      const auto flow = sender.flow_to(address);
      for (int i = 0; i < rounds; ++i) {
        ASSERT_TRUE(sender.send(flow, frame_to(m->qpn(), 100, static_cast<std::uint8_t>(i))));
      }
    }
    sender.flush();
  }

  [[nodiscard]] bool each_has(std::size_t frames) {
    return std::all_of(members.begin(), members.end(),
                       [frames](const auto& m) { return m->sink.frames.size() == frames; });
  }

  [[nodiscard]] std::uint64_t handed_over() {
    std::uint64_t sum = 0;
    for (const auto& m : members) sum += m->counters().handed_over;
    return sum;
  }

  [[nodiscard]] std::uint64_t dropped() {
    std::uint64_t sum = 0;
    for (const auto& m : members) sum += m->counters().handover_drops;
    return sum;
  }

  /// Frames arrive unhanded once the probes of the last change are answered.
  void expect_steered() {
    const auto before = handed_over();
    for (auto& m : members) m->sink.frames.clear();
    send_to_each(10);
    EXPECT_TRUE(run_until(all(), [&] { return each_has(10); }));
    EXPECT_EQ(handed_over(), before);
  }

  const IpAddress address = loopback(20);
  Station sender{loopback(21)};
  std::vector<std::unique_ptr<Station>> members;
};

TEST_F(SharedAddress, GetsEachFrameWithoutADetour) {
  settle(all());
  expect_steered();
  EXPECT_EQ(handed_over(), 0u);
}

TEST_F(SharedAddress, GetsEachFrameWhileItStillChanges) {
  send_to_each(10);
  EXPECT_TRUE(run_until(all(), [&] { return each_has(10); }));
  EXPECT_EQ(dropped(), 0u);
}

TEST_F(SharedAddress, SurvivesAMemberThatLeaves) {
  settle(all());
  members.erase(members.begin() + 2);
  settle(all());
  expect_steered();
  EXPECT_EQ(handed_over(), 0u) << "a wire that leaves tells the others to look where they are";
}

TEST_F(SharedAddress, SurvivesAMemberThatIsKilled) {
  // In the middle of the kernel's array, so that its end moves there.
  ChildStation child{address, all()};
  members.push_back(std::make_unique<Station>(address));
  members.push_back(std::make_unique<Station>(address));
  settle(all());
  expect_steered();
  child.kill();
  // No frame is lost. Whoever got a wrong one renews the program; one burst may reach the
  // moved member by luck and teach nobody, so it takes a few.
  bool steered = false;
  for (int burst = 0; burst < 20 && !steered; ++burst) {
    const auto before = handed_over();
    for (auto& m : members) m->sink.frames.clear();
    send_to_each(10);
    ASSERT_TRUE(run_until(all(), [&] { return each_has(10); })) << "in burst " << burst;
    settle(all());
    steered = burst > 0 && handed_over() == before;
  }
  EXPECT_TRUE(steered);
  EXPECT_EQ(dropped(), 0u);

  const auto live = registry::live_slots();
  EXPECT_EQ(std::count(live.begin(), live.end(), child.slot()), 0) << "its name is gone";
}

TEST_F(SharedAddress, HandsOverWhatAForeignProgramMisdirectsAndRepairsIt) {
  settle(all());
  // Somebody of the group steers everything to its first socket.
  Fd intruder{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  const int on = 1;
  const SocketAddress at{address, packet::kRocePort, 0};
  ASSERT_EQ(::setsockopt(intruder.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
  ASSERT_EQ(::bind(intruder.get(), at.get(), at.size()), 0);
  sock_filter first{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &first};
  ASSERT_EQ(
      ::setsockopt(intruder.get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program),
      0);

  send_to_each(10);
  EXPECT_TRUE(run_until(all(), [&] { return each_has(10); }));
  EXPECT_EQ(handed_over(), 70u) << "all but those of the first member";
  std::uint64_t received = 0;
  for (const auto& m : members) {
    received += m->counters().handover_received;
    EXPECT_TRUE(m->sink.lies_in_buffers);
  }
  EXPECT_EQ(received, 70u);
  for (const auto& m : members) {
    EXPECT_EQ(m->sink.frames[0].headers.source, sender.address);
    EXPECT_EQ(m->sink.frames[0].headers.destination, address);
  }
  settle(all());
  expect_steered();
}

TEST_F(SharedAddress, AForkedChildThatAbandonsItsWireChangesNothing) {
  settle(all());
  const pid_t child = ::fork();
  if (child == 0) {
    for (auto* s : all()) s->abandon();
    members.clear();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  settle(all());
  expect_steered();
  EXPECT_EQ(handed_over(), 0u);
}

TEST_F(SharedAddress, AStoppedMemberStopsNobody) {
  ChildStation child{address, all()};
  settle(all());
  child.stop();
  Station late{address};
  expect_steered();
  // Frames for the stopped one: queued or dropped, without waiting.
  const auto flow = sender.flow_to(address);
  for (int i = 0; i < 2000; ++i) {
    sender.send(flow, frame_to(qpn_of(child.slot(), 1), 4000, 0));
  }
  sender.flush();
  settle(all());
  expect_steered();
}

TEST_F(SharedAddress, IgnoresProbesOfStrangers) {
  settle(all());
  const RawSender stranger{loopback(22)};
  for (std::uint16_t index = 0; index < 8; ++index) {
    stranger.send(address, Probe{.index = index, .round = 1u << 20, .nonce = 4711}.encode());
  }
  EXPECT_TRUE(run_until(all(), [&] {
    return std::all_of(members.begin(), members.end(),
                       [](const auto& m) { return m->counters().foreign_probes == 1; });
  }));
  expect_steered();
}

TEST(ProbeTest, DecodesWhatItEncoded) {
  const Probe probe{.index = 513, .round = 0x0102'0304, .nonce = 0x1122'3344'5566'7788};
  const auto back = Probe::decode(probe.encode());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->index, probe.index);
  EXPECT_EQ(back->round, probe.round);
  EXPECT_EQ(back->nonce, probe.nonce);
}

TEST(ProbeTest, IsNothingElse) {
  const auto bytes = Probe{}.encode();
  EXPECT_FALSE(Probe::decode(std::span{bytes}.first(15)).has_value());
  auto other = bytes;
  other[0] = 0x04;
  EXPECT_FALSE(Probe::decode(other).has_value());
}

}  // namespace
}  // namespace verbena::wire::test
