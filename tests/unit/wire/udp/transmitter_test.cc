// Batches as the kernel gets them, seen by a plain socket.

#include "wire/udp/transmitter.h"

#include <fcntl.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "tests/support/station.h"

namespace verbena::wire::test {
namespace {

class TransmitterTest : public testing::Test {
 protected:
  void SetUp() override {
    receiver_ = Fd{::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    const SocketAddress at{to_, packet::kRocePort, 0};
    ASSERT_EQ(::bind(receiver_.get(), at.get(), at.size()), 0);
    sockets_.add_address({from_, 0});
    const auto port = sockets_.port_for(from_, Qpn{1});
    ASSERT_TRUE(port.ok());
    flow_ = {.source = from_, .destination = to_, .source_port = *port};
  }

  void send(Qpn qpn, std::size_t size) {
    const auto frame = frame_to(qpn, size, static_cast<std::uint8_t>(sent_++));
    const auto room = transmitter_.reserve(flow_, qpn, size);
    ASSERT_EQ(room.size(), size);
    std::copy(frame.begin(), frame.end(), room.begin());
    transmitter_.commit();
  }

  /// The identification for which the next datagram's ICRC is right.
  std::optional<std::uint16_t> next_identification() {
    std::array<std::uint8_t, 65'536> bytes;
    pollfd p{receiver_.get(), POLLIN, 0};
    if (::poll(&p, 1, 1000) != 1) return std::nullopt;
    const auto got = ::recv(receiver_.get(), bytes.data(), bytes.size(), 0);
    if (got < 16) return std::nullopt;
    const auto size = static_cast<std::size_t>(got) - 4;
    return packet::recover_identification({.source = from_,
                                           .destination = to_,
                                           .source_port = flow_.source_port,
                                           .destination_port = packet::kRocePort},
                                          std::span{bytes}.first(size),
                                          packet::load_icrc(&bytes[size]));
  }

  void expect_identifications(const std::vector<std::uint16_t>& expected) {
    for (const auto id : expected) EXPECT_EQ(next_identification(), id);
  }

  const IpAddress from_ = loopback(1);
  const IpAddress to_ = loopback(2);
  std::vector<std::uint8_t> arena_ = std::vector<std::uint8_t>(1 << 20);
  Fd epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  Fd receiver_;
  SendSockets sockets_;
  WireCounters counters_;
  Transmitter transmitter_{arena_, sockets_, counters_, epoll_.get()};
  packet::Flow flow_;
  std::size_t sent_ = 0;
};

TEST_F(TransmitterTest, SealsEachFrameWithItsIndexInTheBatch) {
  for (int i = 0; i < 5; ++i) send(Qpn{7}, 200);
  transmitter_.flush();
  expect_identifications({0, 1, 2, 3, 4});
}

TEST_F(TransmitterTest, RoomsForManyFramesAreCommittedOneByOneAndTheRestForgotten) {
  constexpr std::size_t kSize = 200;
  const auto rooms = transmitter_.reserve_many(flow_, Qpn{7}, kSize, 5);
  ASSERT_EQ(rooms.count, 5u);
  for (std::size_t i = 0; i < rooms.count; ++i) {
    const auto frame = frame_to(Qpn{7}, kSize, static_cast<std::uint8_t>(i));
    std::copy(frame.begin(), frame.end(), rooms[i].begin());
  }
  for (int i = 0; i < 3; ++i) transmitter_.commit();
  send(Qpn{7}, kSize);
  transmitter_.commit();  // nothing is reserved
  transmitter_.flush();
  expect_identifications({0, 1, 2, 3});
  EXPECT_EQ(counters_.frames_sent, 4u);
}

TEST_F(TransmitterTest, NoMoreRoomsThanTheArenaHas) {
  const auto rooms = transmitter_.reserve_many(flow_, Qpn{7}, arena_.size() / 32, 64);
  EXPECT_GE(rooms.count, 30u);
  EXPECT_LE(rooms.count, 32u);
  EXPECT_LE(rooms.bytes.size(), arena_.size());
}

TEST_F(TransmitterTest, AShorterFrameEndsItsBatch) {
  send(Qpn{7}, 200);
  send(Qpn{7}, 200);
  send(Qpn{7}, 100);
  send(Qpn{7}, 100);
  transmitter_.flush();
  expect_identifications({0, 1, 2, 0});
}

TEST_F(TransmitterTest, ALongerFrameBeginsABatch) {
  send(Qpn{7}, 100);
  send(Qpn{7}, 200);
  transmitter_.flush();
  expect_identifications({0, 0});
}

TEST_F(TransmitterTest, AnotherQueuePairBeginsABatch) {
  send(Qpn{7}, 100);
  send(Qpn{8}, 100);
  send(Qpn{8}, 100);
  transmitter_.flush();
  expect_identifications({0, 0, 1});
}

TEST_F(TransmitterTest, AnotherTrafficClassBeginsABatch) {
  send(Qpn{7}, 100);
  flow_.traffic_class = 4;
  send(Qpn{7}, 100);
  transmitter_.flush();
  expect_identifications({0, 0});
}

TEST_F(TransmitterTest, ABatchHolds64Frames) {
  for (int i = 0; i < 65; ++i) send(Qpn{7}, 20);
  transmitter_.flush();
  for (std::uint16_t i = 0; i < 64; ++i) EXPECT_EQ(next_identification(), i);
  EXPECT_EQ(next_identification(), 0);
}

TEST_F(TransmitterTest, WithoutSegmentationEachFrameGoesAlone) {
  // The kernel refuses UDP_SEGMENT from a socket that sends no checksums (EINVAL), as it
  // does on interfaces that can't compute them.
  const int on = 1;
  ASSERT_EQ(::setsockopt(sockets_.find(from_, flow_.source_port)->fd.get(), SOL_SOCKET, SO_NO_CHECK,
                         &on, sizeof on),
            0);
  for (int i = 0; i < 3; ++i) send(Qpn{7}, 200);
  send(Qpn{7}, 100);
  transmitter_.flush();
  expect_identifications({0, 0, 0, 0});
  EXPECT_EQ(counters_.frames_sent, 4u);
  EXPECT_EQ(counters_.send_errors, 0u);

  send(Qpn{7}, 200);
  send(Qpn{7}, 200);
  transmitter_.flush();
  expect_identifications({0, 0});
}

TEST_F(TransmitterTest, CountsWhatTheKernelRefuses) {
  flow_.destination = *IpAddress::parse("127.255.255.255");  // EACCES: no SO_BROADCAST
  send(Qpn{7}, 200);
  send(Qpn{7}, 200);
  flow_.destination = to_;
  send(Qpn{7}, 200);
  transmitter_.flush();
  EXPECT_EQ(counters_.send_errors, 2u);
  EXPECT_EQ(counters_.frames_sent, 1u);
  EXPECT_NE(transmitter_.last_error().find("127.255.255.255:4791"), std::string::npos)
      << transmitter_.last_error();
  expect_identifications({0});
}

TEST_F(TransmitterTest, RoomThatWasNotCommittedIsGivenAgain) {
  ASSERT_EQ(transmitter_.reserve(flow_, Qpn{7}, 300).size(), 300u);
  send(Qpn{7}, 200);
  transmitter_.flush();
  EXPECT_EQ(counters_.frames_sent, 1u);
  expect_identifications({0});
}

// The rest needs a loopback interface of its own: a child makes it in a new namespace.

constexpr int kSkip = 77;

struct Outcome {
  int status = 0;
  std::string report;
};

/// Runs `body` in a child; it writes to the descriptor it gets and returns an exit status. Always
/// skipped under ThreadSanitizer, which gives the child a second thread: EINVAL.
Outcome in_own_network(const std::function<int(int)>& body) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {kSkip, "no pipe"};
  const Fd in{ends[0]};
  Fd out{ends[1]};
  const pid_t child = ::fork();
  if (child == 0) {
    // Root in there, so that programs which it starts keep its capabilities.
    const auto map = "0 " + std::to_string(::geteuid()) + " 1";
    const auto skip = [&](const char* call) {
      ::dprintf(out.get(), "%s: %s", call, std::strerror(errno));
      ::_exit(kSkip);
    };
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) skip("unshare");
    const Fd uid_map{::open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC)};
    if (::write(uid_map.get(), map.data(), map.size()) <= 0) skip("uid_map");
    ::_exit(body(out.get()));
  }
  out.reset();
  std::array<char, 1024> text{};
  const auto size = ::read(in.get(), text.data(), text.size());
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))}};
}

bool raise_loopback(int mtu) {
  const Fd control{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ifreq lo{};
  std::strcpy(lo.ifr_name, "lo");
  lo.ifr_mtu = mtu;
  if (::ioctl(control.get(), SIOCSIFMTU, &lo) != 0) return false;
  lo.ifr_flags = IFF_UP;
  return ::ioctl(control.get(), SIOCSIFFLAGS, &lo) == 0;
}

int send_over_a_small_mtu(int report) {
  if (!raise_loopback(1500)) return kSkip;
  Station a{IpAddress::v4({127, 0, 0, 1})};
  const auto flow = a.flow_to(a.address);
  for (int i = 0; i < 3; ++i) a.send(flow, frame_to(a.qpn(), 4112, 0));
  a.flush();
  const auto& text = a.wire->last_send_error();
  (void)!::write(report, text.data(), text.size());
  if (a.counters().send_errors != 3) return 1;
  // Fitting frames still leave in batches.
  for (int i = 0; i < 3; ++i) a.send(flow, frame_to(a.qpn(), 1040, 0));
  a.flush();
  return run_until({&a}, [&] { return a.sink.frames.size() == 3; }) ? 0 : 2;
}

TEST(TransmitterMtu, NamesBothNumbersWhenAFrameExceedsThePath) {
  const auto outcome = in_own_network(send_over_a_small_mtu);
  if (outcome.status == kSkip) GTEST_SKIP() << "no network namespace: " << outcome.report;
  ASSERT_EQ(outcome.status, 0);
  const auto& message = outcome.report;
  EXPECT_NE(message.find("4144"), std::string::npos) << message;  // 4112 + ICRC + UDP + IP
  EXPECT_NE(message.find("MTU of 1500"), std::string::npos) << message;
}

std::uint32_t drops_of(const Fd& socket) {
  std::array<std::uint32_t, SK_MEMINFO_VARS> info{};
  socklen_t size = sizeof info;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_MEMINFO, info.data(), &size);
  return info[SK_MEMINFO_DROPS];
}

/// A shaper keeps what was sent charged to the socket, so that it fills up.
int send_more_than_the_socket_holds(int) {
  if (!raise_loopback(65'536) ||
      std::system("tc qdisc replace dev lo root tbf rate 100mbit burst 80kb limit 4mb "
                  ">/dev/null 2>&1") != 0) {
    return kSkip;
  }
  constexpr std::size_t kFrames = 300;
  constexpr std::size_t kSize = 4000;
  const auto from = IpAddress::v4({127, 0, 0, 1});
  const SocketAddress at{from, packet::kRocePort, 0};
  const Fd receiver{::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (::bind(receiver.get(), at.get(), at.size()) != 0) return 1;

  SendSockets sockets;
  sockets.add_address({from, 0});
  const auto port = *sockets.port_for(from, Qpn{1});
  const int small = 64 << 10;
  ::setsockopt(sockets.find(from, port)->fd.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  std::vector<std::uint8_t> arena(256 << 10);  // a quarter of what is to be sent
  const Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  WireCounters counters;
  Transmitter transmitter{arena, sockets, counters, epoll.get()};

  constexpr std::size_t kNumber = 20;  // where a frame carries its number
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  std::uint32_t next = 0;
  bool was_full = false;
  const auto deadline = monotonic_now() + 5s;
  // On a busy machine the receiver may be late: what its socket dropped isn't the sender's fault.
  while (received + drops_of(receiver) < kFrames && monotonic_now() < deadline) {
    while (sent < kFrames) {
      const auto room = transmitter.reserve(
          {.source = from, .destination = from, .source_port = port}, Qpn{7}, kSize);
      was_full = was_full || room.empty();
      if (room.empty()) break;
      std::fill(room.begin(), room.end(), std::uint8_t{0});
      store_be24(&room[5], 7);
      store_be32(&room[kNumber], sent++);
      transmitter.commit();
    }
    transmitter.flush();
    std::array<pollfd, 2> fds{pollfd{epoll.get(), POLLIN, 0}, pollfd{receiver.get(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), 20);
    std::array<std::uint8_t, kSize + 4> bytes;
    while (::recv(receiver.get(), bytes.data(), bytes.size(), 0) > 0) {
      ++received;
      const std::uint32_t number = load_be32(&bytes[kNumber]);
      if (number < next) return 2;
      next = number + 1;
    }
  }
  if (received + drops_of(receiver) != kFrames) return 3;
  return was_full && !transmitter.waiting() && counters.send_errors == 0 ? 0 : 4;
}

TEST(TransmitterFull, KeepsFramesInOrderUntilTheSocketHasRoom) {
  const auto outcome = in_own_network(send_more_than_the_socket_holds);
  if (outcome.status == kSkip) GTEST_SKIP() << "no network namespace or no tc: " << outcome.report;
  EXPECT_EQ(outcome.status, 0) << outcome.report;
}

/// IPv4 on lo has a slow line, IPv6 none.
int send_beside_a_full_path(int report) {
  if (!raise_loopback(65'536) ||
      std::system(
          "(tc qdisc add dev lo root handle 1: htb default 2 &&"
          " tc class add dev lo parent 1: classid 1:1 htb rate 1mbit burst 70kb cburst 70kb &&"
          " tc class add dev lo parent 1: classid 1:2 htb rate 20gbit burst 1mb cburst 1mb &&"
          " tc filter add dev lo parent 1: protocol ip prio 1 u32 match u32 0 0 flowid 1:1)"
          " >/dev/null 2>&1") != 0) {
    return kSkip;
  }
  const auto slow = IpAddress::v4({127, 0, 0, 1});
  const auto quick = *IpAddress::parse("::1");
  SendSockets sockets;
  sockets.add_address({slow, 0});
  sockets.add_address({quick, 0});
  const auto slow_port = *sockets.port_for(slow, Qpn{1});
  const auto quick_port = *sockets.port_for(quick, Qpn{2});
  const int small = 64 << 10;
  ::setsockopt(sockets.find(slow, slow_port)->fd.get(), SOL_SOCKET, SO_SNDBUF, &small,
               sizeof small);
  std::vector<std::uint8_t> arena(1 << 20);
  const Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  WireCounters counters;
  Transmitter transmitter{arena, sockets, counters, epoll.get()};

  const auto put = [&](const IpAddress& address, std::uint16_t port, Qpn to) {
    const auto room = transmitter.reserve(
        {.source = address, .destination = address, .source_port = port}, to, 4000);
    std::ranges::fill(room, std::uint8_t{0});
    if (!room.empty()) transmitter.commit();
    return !room.empty();
  };
  for (int round = 0; round < 100 && !transmitter.waiting(); ++round) {
    while (put(slow, slow_port, Qpn{7}) && !transmitter.full()) {
    }
    transmitter.flush();
  }
  if (!transmitter.waiting()) return 1;
  // Many times what the arena holds; the slow line sends nothing of note meanwhile.
  const auto before = counters.frames_sent;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 16; ++i) {
      if (!put(quick, quick_port, Qpn{8})) return ::dprintf(report, "round %d", round) > 0 ? 2 : 3;
    }
    transmitter.flush();
  }
  return counters.frames_sent - before >= 3200 && transmitter.waiting() ? 0 : 4;
}

TEST(TransmitterFull, AFullSocketLeavesTheArenaToOthers) {
  const auto outcome = in_own_network(send_beside_a_full_path);
  if (outcome.status == kSkip) GTEST_SKIP() << "no network namespace or no tc: " << outcome.report;
  EXPECT_EQ(outcome.status, 0) << outcome.report;
}

}  // namespace
}  // namespace verbena::wire::test
