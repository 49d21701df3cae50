// Several processes behind one address share QP 1: each message of the connection manager
// reaches who it is for.

#include <linux/filter.h>

#include "cm_frames.h"
#include "tests/support/station.h"

namespace verbena::wire::test {
namespace {

using registry::PortBinding;

using packet::CmAttribute;
using packet::CommId;

class Gsi : public testing::Test {
 protected:
  Gsi() {
    for (int i = 0; i < 4; ++i) members.push_back(std::make_unique<Station>(address));
  }

  [[nodiscard]] Stations all() {
    Stations stations{&sender};
    for (auto& m : members) stations.push_back(m.get());
    return stations;
  }

  /// From as many source ports, so that the kernel's hash spreads them.
  void send(const std::vector<std::uint8_t>& frame, std::uint32_t times = kTimes) {
    for (std::uint32_t i = 0; i < times; ++i) {
      ASSERT_TRUE(sender.send(sender.flow_to(address, 0x11 + i), frame));
    }
    sender.flush();
  }

  [[nodiscard]] std::size_t got(std::size_t member) const {
    return members[member]->sink.frames.size();
  }
  [[nodiscard]] std::size_t got_together() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < members.size(); ++i) sum += got(i);
    return sum;
  }

  [[nodiscard]] std::uint64_t sum_of(std::uint64_t WireCounters::*counter) const {
    std::uint64_t sum = 0;
    for (const auto& m : members) sum += m->counters().*counter;
    return sum;
  }

  /// All `frames` come to `member` and nobody else gets one.
  void expect_all_at(std::size_t member, std::size_t frames = kTimes) {
    EXPECT_TRUE(run_until(all(), [&] { return got(member) >= frames; }));
    settle(all());
    EXPECT_EQ(got(member), frames);
    EXPECT_EQ(got_together(), frames);
    EXPECT_EQ(sum_of(&WireCounters::handover_drops), 0u);
    for (auto& m : members) m->sink.frames.clear();
  }

  static PortBinding tcp(std::uint16_t port, std::optional<IpAddress> at = std::nullopt) {
    return {.space = PortSpace::tcp, .port = port, .address = at};
  }

  static constexpr std::uint32_t kTimes = 24;
  const IpAddress address = loopback(40);
  const std::uint16_t port = test_port(0);
  const std::uint16_t other_port = test_port(1);
  const ServiceId service{PortSpace::tcp, port};
  const ServiceId other_service{PortSpace::tcp, other_port};
  Station sender{loopback(41)};
  std::vector<std::unique_ptr<Station>> members;
};

TEST_F(Gsi, RequestsReachWhoListensWithoutADetour) {
  settle(all());
  ASSERT_TRUE(members[1]->listen(tcp(port)));
  ASSERT_TRUE(members[2]->listen(tcp(other_port, address)));
  send(request(service));
  expect_all_at(1);
  send(request(other_service));
  expect_all_at(2);
  send(request(service, CmAttribute::sidr_req));
  expect_all_at(1);
  EXPECT_EQ(sum_of(&WireCounters::handed_over), 0u);
}

TEST_F(Gsi, AListenerIsKnownAtAddressesThatOpenLater) {
  ASSERT_TRUE(members[1]->listen(tcp(port)));
  const auto late = loopback(42);
  for (auto& m : members) ASSERT_TRUE(m->wire->open_address({late, 0}).ok());
  settle(all());
  for (std::uint32_t i = 0; i < kTimes; ++i) {
    ASSERT_TRUE(sender.send(sender.flow_to(late, 0x11 + i), request(service)));
  }
  sender.flush();
  expect_all_at(1);
  EXPECT_EQ(sum_of(&WireCounters::handed_over), 0u);
}

TEST_F(Gsi, RepliesGoByCommunicationId) {
  settle(all());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto id = CommId::of_slot(members[i]->slot(), 77);
    for (const auto attribute : {CmAttribute::rep, CmAttribute::dreq, CmAttribute::sidr_rep}) {
      send(reply(id, attribute));
      expect_all_at(i);
    }
  }
  EXPECT_EQ(sum_of(&WireCounters::handed_over), 0u);
}

TEST_F(Gsi, WhatTheProgramMisdirectsIsHandedOver) {
  settle(all());
  ASSERT_TRUE(members[1]->listen(tcp(port)));
  const auto steer_to_first = [&] {
    Fd intruder{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    const int on = 1;
    const SocketAddress at{address, packet::kRocePort, 0};
    EXPECT_EQ(::setsockopt(intruder.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
    EXPECT_EQ(::bind(intruder.get(), at.get(), at.size()), 0);
    sock_filter first{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &first};
    EXPECT_EQ(::setsockopt(intruder.get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
                           sizeof program),
              0);
    return intruder;
  };
  const Fd intruder = steer_to_first();
  send(request(service));
  expect_all_at(1);
  EXPECT_EQ(members[1]->counters().handover_received, kTimes);
  EXPECT_TRUE(members[1]->sink.lies_in_buffers);

  const Fd again = steer_to_first();
  send(reply(CommId::of_slot(members[2]->slot(), 1)));
  expect_all_at(2);
  EXPECT_EQ(members[2]->counters().handover_received, kTimes);
}

TEST_F(Gsi, WhatConcernsNobodyIsKeptByWhoeverGetsIt) {
  settle(all());
  ASSERT_TRUE(members[1]->listen(tcp(port, loopback(43))));  // at another address
  std::size_t expected = 0;
  std::uint32_t unused = 1;
  while (std::ranges::any_of(registry::live_slots(), [&](auto slot) { return slot == unused; }))
    ++unused;
  for (const auto& frame : {request(service), request(ServiceId{0x1000'0000'0000'0001}),
                            reply(CommId::of_slot(unused, 1)), reply(CommId{5})}) {
    send(frame);
    expected += kTimes;
    EXPECT_TRUE(run_until(all(), [&] { return got_together() == expected; }));
  }
  settle(all());
  EXPECT_EQ(got_together(), expected);
  EXPECT_EQ(sum_of(&WireCounters::handed_over), 0u);
}

TEST_F(Gsi, ARejectionWithoutAnIdReachesEveryListener) {
  ASSERT_TRUE(members[1]->listen(tcp(port)));
  ASSERT_TRUE(members[1]->listen(tcp(test_port(2))));
  ASSERT_TRUE(members[2]->listen(tcp(other_port, loopback(43))));
  settle(all());
  send(reply(CommId{0}, CmAttribute::rej));
  EXPECT_TRUE(run_until(all(), [&] { return got(1) == kTimes && got(2) == kTimes; }));
  settle(all());
  EXPECT_EQ(got(1), kTimes) << "once each, though it listens on two";
  EXPECT_EQ(got(2), kTimes);
  EXPECT_LE(got(0) + got(3), kTimes) << "only what the hash gave them";
  EXPECT_EQ(sum_of(&WireCounters::handover_drops), 0u);
}

TEST_F(Gsi, APortThatIsReleasedGoesToTheNextListener) {
  const auto first = members[1]->listen(tcp(port));
  ASSERT_TRUE(first);
  settle(all());
  send(request(service));
  expect_all_at(1);
  EXPECT_FALSE(members[2]->listen(tcp(port)));
  members[1]->registry->release_port(*first);
  ASSERT_TRUE(members[2]->listen(tcp(port)));
  send(request(service));
  expect_all_at(2);
  EXPECT_EQ(sum_of(&WireCounters::handed_over), 0u);
}

TEST_F(Gsi, AStoppedProcessStopsNoRequestsOfOthers) {
  ChildStation child{address, all()};
  settle(all());
  child.stop();
  ASSERT_TRUE(members[1]->listen(tcp(port)));
  send(request(service));
  expect_all_at(1);
  send(reply(CommId::of_slot(members[0]->slot(), 1)));
  expect_all_at(0);
}

TEST_F(Gsi, ThePortOfAKilledProcessIsFreeAtOnce) {
  ChildStation child{address, all(), tcp(port)};
  settle(all());
  const auto taken = members[0]->registry->bind_port(tcp(port));
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, EADDRINUSE);
  EXPECT_NE(taken.error().message.find("slot " + std::to_string(child.slot())), std::string::npos)
      << taken.error().message;
  child.kill();
  ASSERT_TRUE(members[0]->listen(tcp(port)));
  // The kernel's array has changed. One burst may find it wrong, and put it right.
  send(request(service));
  expect_all_at(0);
}

TEST_F(Gsi, ThePortsOfAWireThatLeavesAreFree) {
  ASSERT_TRUE(members[3]->listen(tcp(port)));
  members.pop_back();
  EXPECT_TRUE(members[0]->listen(tcp(port)));
}

TEST_F(Gsi, ManyListenersAllGetTheirRequests) {
  // More than a program holds. At an address that opens afterwards: one program, not thousands.
  const auto crowded = loopback(44);
  std::vector<std::uint16_t> ports;
  while (ports.size() < 2500) {
    auto& registry = *members[ports.size() % 4]->registry;
    const auto bound = registry.bind_port(tcp(0, crowded));
    ASSERT_TRUE(bound.ok()) << bound.error().message;
    ASSERT_TRUE(registry.listen_port(bound->id).ok());
    ports.push_back(bound->port);
  }
  for (auto& m : members) ASSERT_TRUE(m->wire->open_address({crowded, 0}).ok());
  settle(all());
  std::vector<std::size_t> expected(4);
  for (std::size_t i = 0; i < ports.size(); i += 5) {
    const auto frame = request({PortSpace::tcp, ports[i]});
    ASSERT_TRUE(sender.send(sender.flow_to(crowded, static_cast<std::uint32_t>(i)), frame));
    ++expected[i % 4];
  }
  sender.flush();
  EXPECT_TRUE(run_until(all(), [&] { return got_together() == 500; }));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(got(i), expected[i]);
  EXPECT_GT(sum_of(&WireCounters::handed_over), 0u) << "they did fit into the program";
  EXPECT_LT(sum_of(&WireCounters::handed_over), 300u) << "most are in the program";
}

}  // namespace
}  // namespace verbena::wire::test
