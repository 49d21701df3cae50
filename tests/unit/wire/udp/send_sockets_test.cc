#include "wire/udp/send_sockets.h"

#include <set>

#include "tests/support/station.h"

namespace verbena::wire::test {
namespace {

TEST(SendSockets, GivesEachQueuePairAPortOfItsOwnAndThenShares) {
  SendSockets sockets;
  const auto address = loopback(1);
  sockets.add_address({address, 0});
  std::set<std::uint16_t> ports;
  for (std::uint32_t i = 0; i < SendSockets::kPerAddress; ++i) {
    const auto port = sockets.port_for(address, Qpn{i});
    ASSERT_TRUE(port.ok()) << port.error().message;
    EXPECT_GE(*port, 0xC000);
    ports.insert(*port);
  }
  EXPECT_EQ(ports.size(), SendSockets::kPerAddress);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const auto port = sockets.port_for(address, Qpn{i});
    ASSERT_TRUE(port.ok());
    EXPECT_TRUE(ports.contains(*port));
    EXPECT_NE(sockets.find(address, *port), nullptr);
  }
}

TEST(SendSockets, GivesTheMessagesOfQp1PortsInTurn) {
  SendSockets sockets;
  const auto address = loopback(1);
  sockets.add_address({address, 0});
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 0; i < 3 * SendSockets::kManagementPorts; ++i) {
    const auto port = sockets.management_port(address);
    ASSERT_TRUE(port.ok()) << port.error().message;
    ports.push_back(*port);
    ASSERT_NE(sockets.find(address, *port), nullptr);
    EXPECT_TRUE(sockets.find(address, *port)->tells);
    if (i > 0) {
      EXPECT_NE(ports[i], ports[i - 1]) << "a repetition takes the same way";
    }
  }
  EXPECT_EQ((std::set<std::uint16_t>{ports.begin(), ports.end()}.size()),
            SendSockets::kManagementPorts);
  const auto data = sockets.port_for(address, Qpn{1});
  ASSERT_TRUE(data.ok());
  EXPECT_FALSE(sockets.find(address, *data)->tells);
}

TEST(SendSockets, WantsAnOpenAddress) {
  SendSockets sockets;
  const auto port = sockets.port_for(loopback(1), Qpn{1});
  ASSERT_FALSE(port.ok());
  EXPECT_EQ(port.error().code, EADDRNOTAVAIL);
}

TEST(SendSockets, ReceiveNothing) {
  SendSockets sockets;
  const auto address = loopback(1);
  sockets.add_address({address, 0});
  const auto port = sockets.port_for(address, Qpn{1});
  ASSERT_TRUE(port.ok());
  const Fd sender{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  const SocketAddress to{address, *port, 0};
  ASSERT_EQ(::sendto(sender.get(), "x", 1, 0, to.get(), to.size()), 1);
  char byte = 0;
  EXPECT_EQ(::recv(sockets.find(address, *port)->fd.get(), &byte, 1, MSG_DONTWAIT), -1);
}

}  // namespace
}  // namespace verbena::wire::test
