// How many datagrams one look takes.

#include "wire/udp/receiver.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

#include "tests/support/station.h"
#include "wire/udp/udp_socket.h"

namespace verbena::wire::test {
namespace {

class ReceiverTest : public testing::Test, TrainSink {
 protected:
  static constexpr std::size_t kSmall = 64;
  static constexpr std::size_t kBig = Receiver::kLarge + 1;

  void SetUp() override {
    auto opened = open_receive_socket({at_, 0});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    socket_.fd = std::move(opened).value();
    socket_.local = {at_, 0};
    ASSERT_TRUE(sender_);
  }

  void arrive(unsigned count, std::size_t size) {
    const std::vector<std::uint8_t> bytes(size, 7);
    const SocketAddress to{at_, packet::kRocePort, 0};
    for (unsigned i = 0; i < count; ++i) {
      ASSERT_EQ(::sendto(sender_.get(), bytes.data(), size, 0, to.get(), to.size()),
                static_cast<ssize_t>(size));
    }
  }

  std::size_t look() {
    trains_.clear();
    const std::size_t got = receiver_.receive(socket_, *this);
    EXPECT_EQ(got, trains_.size());
    return got;
  }

  std::vector<std::size_t> trains_;  // bytes of each, of the last look

 private:
  void train(const Train& t) override { trains_.push_back(t.whole.bytes.size()); }

  const IpAddress at_ = loopback(1);
  std::vector<std::uint8_t> memory_ =
      std::vector<std::uint8_t>(Receiver::kBuffers * Receiver::kBufferBytes);
  WireCounters counters_;
  Receiver receiver_{memory_, counters_};
  ReceiveSocket socket_;
  Fd sender_{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

TEST_F(ReceiverTest, TakesOneAfterALookInVainThenAllBuffersFull) {
  EXPECT_EQ(look(), 0u);
  arrive(2 + Receiver::kBuffers, kSmall);
  EXPECT_EQ(look(), 1u);
  EXPECT_EQ(look(), Receiver::kBuffers);
  EXPECT_EQ(look(), 1u);
  EXPECT_EQ(look(), 0u);
}

TEST_F(ReceiverTest, TakesFewAtOnceWhileTheyAreLarge) {
  arrive(2 + Receiver::kFewLarge, kBig);
  EXPECT_EQ(look(), 1u);
  EXPECT_EQ(look(), Receiver::kFewLarge);
  EXPECT_EQ(trains_, std::vector(Receiver::kFewLarge, kBig));
  EXPECT_EQ(look(), 1u);
}

TEST_F(ReceiverTest, TakesManyAgainWhenTheyAreSmall) {
  arrive(2, kBig);
  arrive(Receiver::kFewLarge + Receiver::kBuffers, kSmall);
  EXPECT_EQ(look(), 1u);
  EXPECT_EQ(look(), Receiver::kFewLarge);  // a large one and small ones
  EXPECT_EQ(look(), Receiver::kFewLarge);
  EXPECT_EQ(look(), Receiver::kBuffers - Receiver::kFewLarge + 1);
}

}  // namespace
}  // namespace verbena::wire::test
