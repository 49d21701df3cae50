// The program alone, run by an interpreter; steering_test.cc has it in the kernel.

#include "classic_bpf.h"
#include "cm_frames.h"
#include "tests/support/station.h"
#include "wire/udp/steering.h"

namespace verbena::wire::test {
namespace {

using packet::CmAttribute;
using packet::CommId;

constexpr std::uint32_t kByHash = UINT32_MAX;

std::uint32_t low(ServiceId service) { return static_cast<std::uint32_t>(service.value()); }

class SteeringProgram : public testing::Test {
 protected:
  [[nodiscard]] std::optional<std::uint32_t> steer(const std::vector<std::uint8_t>& frame) const {
    return run_bpf(steering_program(rules, listeners), frame);
  }

  const ServiceId web{PortSpace::tcp, 80};
  const ServiceId names{PortSpace::udp, 53};
  const std::vector<registry::GroupMember> rules{{5, 3}, {6, 0}, {1023, 7}};
  const std::vector<ListenerRule> listeners{{low(web), 3}, {low(names), 7}, {low(web), 0}};
};

TEST_F(SteeringProgram, SteersByTheSlotOfTheQpn) {
  EXPECT_EQ(steer(frame_to(qpn_of(5, 0x11), 100, 0)), 3u);
  EXPECT_EQ(steer(frame_to(qpn_of(6, 0), 100, 0)), 0u);
  EXPECT_EQ(steer(frame_to(qpn_of(1023, 0x3ffe), 100, 0)), 7u);
  EXPECT_EQ(steer(frame_to(qpn_of(7, 1), 100, 0)), kByHash);
  EXPECT_EQ(steer(frame_to(Qpn{2}, 100, 0)), kByHash);
}

TEST_F(SteeringProgram, SteersProbesToTheirIndex) {
  const auto probe = Probe{.index = 513}.encode();
  EXPECT_EQ(steer({probe.begin(), probe.end()}), 513u);
}

TEST_F(SteeringProgram, SteersRequestsToWhoListens) {
  for (const auto attribute : {CmAttribute::req, CmAttribute::sidr_req}) {
    EXPECT_EQ(steer(request(web, attribute)), 3u) << "the first rule counts";
    EXPECT_EQ(steer(request(names, attribute)), 7u);
    EXPECT_EQ(steer(request(ServiceId{PortSpace::udp, 80}, attribute)), kByHash);
    EXPECT_EQ(steer(request(ServiceId{web.value() | 1ull << 32}, attribute)), kByHash);
  }
}

TEST_F(SteeringProgram, SteersEverythingElseByCommunicationId) {
  for (const auto attribute :
       {CmAttribute::mra, CmAttribute::rej, CmAttribute::rep, CmAttribute::rtu, CmAttribute::dreq,
        CmAttribute::drep, CmAttribute::sidr_rep, CmAttribute::lap, CmAttribute::apr}) {
    const auto number = static_cast<int>(attribute);
    EXPECT_EQ(steer(reply(CommId::of_slot(5, 1), attribute)), 3u) << number;
    EXPECT_EQ(steer(reply(CommId::of_slot(1023, CommId::kIndexMask), attribute)), 7u) << number;
    EXPECT_EQ(steer(reply(CommId::of_slot(9, 1), attribute)), kByHash) << number;
    EXPECT_EQ(steer(reply(CommId{0}, attribute)), kByHash) << number;
  }
}

TEST_F(SteeringProgram, LeavesOtherClassesToTheHash) {
  auto frame = reply(CommId::of_slot(5, 1));
  frame[packet::CmOffsets::kManagementClass] = 0x03;
  EXPECT_EQ(steer(frame), kByHash);
}

TEST_F(SteeringProgram, EndsOnAFrameOfAnyLength) {
  for (const auto& whole : {request(web), reply(CommId::of_slot(5, 1))}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_TRUE(steer({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}));
    }
  }
}

TEST_F(SteeringProgram, LeavesTheListenersThatAreTooManyToTheHash) {
  std::vector<ListenerRule> many;
  for (std::uint16_t port = 1; port <= 5000; ++port) {
    many.push_back({low({PortSpace::tcp, port}), 3});
  }
  const auto program = steering_program(rules, many);
  EXPECT_LE(program.size(), std::size_t{BPF_MAXINSNS});
  EXPECT_EQ(run_bpf(program, request({PortSpace::tcp, 1})), 3u);
  EXPECT_EQ(run_bpf(program, request({PortSpace::tcp, 2000})), 3u);
  EXPECT_EQ(run_bpf(program, request({PortSpace::tcp, 5000})), kByHash);
  EXPECT_EQ(run_bpf(program, frame_to(qpn_of(1023, 1), 100, 0)), 7u);
  EXPECT_EQ(run_bpf(program, reply(CommId::of_slot(1023, 1))), 7u);
}

class AttachSteering : public testing::Test {
 protected:
  AttachSteering() {
    const int on = 1;
    EXPECT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
  }
  const Fd fd{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

TEST_F(AttachSteering, OfAFullRegistryIsAccepted) {
  std::vector<registry::GroupMember> rules;
  for (std::uint32_t slot = 1; slot < Qpn::kSlots; ++slot) {
    rules.push_back({slot, static_cast<std::uint16_t>(slot - 1)});
  }
  if (!attach_steering(fd.get(), rules)) {
    GTEST_SKIP() << "net.core.optmem_max is too small for " << rules.size() << " rules";
  }
}

TEST_F(AttachSteering, OfAnyNumberOfListenersIsAccepted) {
  const std::vector<registry::GroupMember> rules{{5, 0}};
  std::vector<ListenerRule> listeners;
  for (std::uint32_t i = 0; i < 16'384; ++i) listeners.push_back({0x0106'0000 + i, 0});
  EXPECT_TRUE(attach_steering(fd.get(), rules, listeners));
}

}  // namespace
}  // namespace verbena::wire::test
