// Frames through the kernel: on the loopback interface of a network namespace of the test's own.

#include "wire/packet_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace verbena::wire {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Only a thread's namespace changes. False: the machine forbids it.
bool enter_network() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const Fd fd{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ::ioctl(fd.get(), SIOCSIFFLAGS, &request) == 0;
}

class PacketSocketTest : public testing::Test {
 protected:
  /// Runs `body` with a sender and a receiver on "lo".
  void on_loopback(const std::function<void(PacketSender&, PacketReceiver&)>& body) {
    int refused = 0;
    std::thread{[&] {
      if (!enter_network()) {
        refused = errno;
        return;
      }
      const unsigned lo = if_nametoindex("lo");
      auto sender = PacketSender::open(lo);
      auto receiver = PacketReceiver::open(lo);
      ASSERT_TRUE(sender) << sender.error().message;
      ASSERT_TRUE(receiver) << receiver.error().message;
      body(*sender, *receiver);
    }}.join();
    if (refused != 0) GTEST_SKIP() << "no network namespace here: " << std::strerror(refused);
  }

  /// Waits two seconds at most for a frame of the test's own type.
  std::optional<PacketReceiver::Frame> next(PacketReceiver& receiver) {
    for (pollfd p{receiver.fd(), POLLIN, 0}; ::poll(&p, 1, 2000) == 1;) {
      while (const auto frame = receiver.receive(buffer)) {
        if (is_ours(frame->bytes)) return frame;
      }
    }
    return std::nullopt;
  }

  /// 0x88b5 is for experiments.
  static Bytes make_frame(std::size_t size, const Bytes& tag = {}) {
    constexpr std::array<std::uint8_t, 12> kMacs{0x01, 0x50, 0x56, 0x19, 0x20, 0xa7,
                                                 0x24, 0x8a, 0x07, 0xa5, 0x28, 0xc8};
    Bytes frame;
    for (const std::uint8_t b : kMacs) frame.push_back(b);
    for (const std::uint8_t b : tag) frame.push_back(b);
    for (const int b : {0x88, 0xb5}) frame.push_back(static_cast<std::uint8_t>(b));
    while (frame.size() < size) frame.push_back(static_cast<std::uint8_t>(frame.size()));
    return frame;
  }
  static bool is_ours(std::span<const std::uint8_t> frame) {
    return frame.size() > 20 && frame[0] == 0x01 && frame[1] == 0x50;
  }

  Bytes buffer = Bytes(PacketReceiver::kBufferBytes);
};

TEST_F(PacketSocketTest, FrameIsSeenOnceAsItWasSent) {
  on_loopback([&](PacketSender& sender, PacketReceiver& receiver) {
    for (const std::size_t size : {60u, 1514u, 65'550u}) {
      const Bytes sent = make_frame(size);
      ASSERT_EQ(sender.send(sent), 0) << size;
      const auto frame = next(receiver);
      ASSERT_TRUE(frame) << size;
      EXPECT_EQ((Bytes{frame->bytes.begin(), frame->bytes.end()}), sent);
      EXPECT_FALSE(frame->outgoing);
      EXPECT_FALSE(receiver.receive(buffer)) << "there is a second copy";
    }
  });
}

TEST_F(PacketSocketTest, TagOfAVlanIsPartOfTheFrame) {
  on_loopback([&](PacketSender& sender, PacketReceiver& receiver) {
    const Bytes sent = make_frame(100, {0x81, 0x00, 0xbc, 0x0c});
    ASSERT_EQ(sender.send(sent), 0);
    const auto frame = next(receiver);
    ASSERT_TRUE(frame);
    EXPECT_EQ((Bytes{frame->bytes.begin(), frame->bytes.end()}), sent);
  });
}

TEST_F(PacketSocketTest, FrameOverTheMtuIsRefused) {
  on_loopback([&](PacketSender& sender, PacketReceiver&) {
    EXPECT_EQ(sender.send(make_frame(65'551)), EMSGSIZE);
  });
}

TEST_F(PacketSocketTest, AttentionIsGivenAndTakenBack) {
  on_loopback([&](PacketSender&, PacketReceiver& receiver) {
    using Kind = Attention::Kind;
    const packet::Mac group{1, 0, 0x5e, 1, 2, 3};
    for (const Attention& a : {Attention{}, Attention{Kind::address, group},
                               Attention{Kind::address, {2, 0, 0, 0, 0, 9}},
                               Attention{Kind::all_groups, {}}, Attention{Kind::everything, {}}}) {
      const Status attends = receiver.attend(a);
      EXPECT_TRUE(attends) << static_cast<int>(a.kind);
      receiver.turn_back(a);
    }
  });
}

TEST_F(PacketSocketTest, InterfaceWithoutEthernetHeadersIsRefused) {
  on_loopback([&](PacketSender&, PacketReceiver&) {
    const Fd fd{::open("/dev/net/tun", O_RDWR | O_CLOEXEC)};
    ifreq request{};
    std::strcpy(request.ifr_name, "tun0");
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (!fd || ::ioctl(fd.get(), TUNSETIFF, &request) != 0) {
      GTEST_SKIP() << "no tunnels here: " << std::strerror(errno);
    }
    const auto sender = PacketSender::open(if_nametoindex("tun0"));
    ASSERT_FALSE(sender);
    EXPECT_EQ(sender.error().code, EOPNOTSUPP);
    EXPECT_FALSE(PacketReceiver::open(if_nametoindex("tun0")));
  });
}

TEST_F(PacketSocketTest, InterfaceThatIsNotThereIsSaid) {
  on_loopback([&](PacketSender&, PacketReceiver&) {
    const auto sender = PacketSender::open(4711);
    ASSERT_FALSE(sender);
    EXPECT_EQ(sender.error().code, ENODEV);
    EXPECT_NE(sender.error().message.find("interface 4711"), std::string::npos);
  });
}

}  // namespace
}  // namespace verbena::wire
