#include <poll.h>

#include <cerrno>

#include "tests/support/station.h"
#include "wire/undelivered.h"

namespace verbena::wire::test {
namespace {

class UndeliveredTest : public testing::Test {
 protected:
  static packet::Flow message_to(Station& from, const IpAddress& destination) {
    const auto port = from.wire->management_port(from.address);
    EXPECT_TRUE(port.ok());
    return {.source = from.address, .destination = destination, .source_port = *port};
  }
  static bool send(Station& from, const packet::Flow& flow, std::uint8_t seed) {
    const bool room = from.send(flow, frame_to(packet::kGsiQpn, 276, seed));
    from.flush();
    return room;
  }
  /// Whether the sockets wake their wire. Its other descriptor tells of other programs, too.
  static bool wakes(const Station& station) {
    pollfd fd{station.wire->descriptors().data, POLLIN, 0};
    return ::poll(&fd, 1, 30) > 0;
  }

  Station here{loopback(1)};
  const IpAddress nobody = loopback(2);
};

TEST_F(UndeliveredTest, ComesBackFromAnAddressWhereNobodyIs) {
  settle({&here});
  ASSERT_TRUE(send(here, message_to(here, nobody), 7));
  ASSERT_TRUE(run_until({&here}, [&] { return !here.sink.undelivered_frames.empty(); }));
  const auto& back = here.sink.undelivered_frames.front();
  EXPECT_EQ(back.code, ECONNREFUSED);
  EXPECT_EQ(back.source, here.address);
  EXPECT_EQ(back.destination, nobody);
  ASSERT_GE(back.bytes.size(), 276u);
  const auto sent = frame_to(packet::kGsiQpn, 276, 7);
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), back.bytes.begin()));
}

TEST_F(UndeliveredTest, IsSaidOnceAndWakesNobodyAfterwards) {
  settle({&here});
  ASSERT_TRUE(send(here, message_to(here, nobody), 7));
  ASSERT_TRUE(run_until({&here}, [&] { return !here.sink.undelivered_frames.empty(); }));
  EXPECT_FALSE(wakes(here));
  here.turn();
  EXPECT_EQ(here.sink.undelivered_frames.size(), 1u);
}

TEST_F(UndeliveredTest, DoesNotCostTheNextFrameItsWay) {
  Station there{loopback(3)};
  settle({&here, &there});
  auto flow = message_to(here, nobody);
  for (std::uint8_t i = 0; i < 5; ++i) {
    flow.destination = nobody;
    ASSERT_TRUE(send(here, flow, i));  // leaves an error at the socket
    flow.destination = there.address;
    ASSERT_TRUE(send(here, flow, i));
  }
  ASSERT_TRUE(run_until({&there}, [&] { return there.sink.frames.size() == 5; }))
      << there.sink.frames.size() << " of 5 arrived";
  EXPECT_EQ(here.counters().send_errors, 0u);
}

TEST_F(UndeliveredTest, DataFramesTellNothing) {
  settle({&here});
  ASSERT_TRUE(here.send(here.flow_to(nobody), frame_to(here.qpn(), 276, 7)));
  here.flush();
  EXPECT_FALSE(wakes(here));
  here.turn();
  EXPECT_TRUE(here.sink.undelivered_frames.empty());
}

}  // namespace
}  // namespace verbena::wire::test
