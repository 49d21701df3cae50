#include "host/events/event_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <memory>

namespace verbena::host {
namespace {

struct EventChannelTest : testing::Test {
  EventChannelTest() : channel{EventChannel::create().value()} {
    fcntl(channel->fd(), F_SETFL, fcntl(channel->fd(), F_GETFL) | O_NONBLOCK);
  }
  /// The kinds of all that wait; EAGAIN after them.
  std::vector<int> take_all() {
    std::vector<int> kinds;
    for (;;) {
      const auto event = channel->get();
      if (!event) {
        EXPECT_EQ(event.error().code, EAGAIN);
        return kinds;
      }
      kinds.push_back(event->kind);
    }
  }
  std::unique_ptr<EventChannel> channel;
};

TEST_F(EventChannelTest, PortEventsThatNobodyTakesDoNotPileUp) {
  for (int i = 0; i < 1000; ++i) {
    channel->raise({9, nullptr});
    channel->raise({18, nullptr});
    channel->raise({10, nullptr});
  }
  EXPECT_EQ(take_all(), (std::vector{9, 18, 10}));
  EXPECT_EQ(take_all(), std::vector<int>{});
}

TEST_F(EventChannelTest, IsNotReadableForTheEventsOfWhatIsGone) {
  EventSource source{.listener = channel.get()};
  channel->raise({5, &source});
  channel->raise({6, &source});
  channel->forget(source);
  pollfd p{channel->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 0), 0);
  channel->raise({9, nullptr});
  EXPECT_EQ(take_all(), std::vector{9});
}

TEST_F(EventChannelTest, TheLastWordOfAPortStandsLast) {
  channel->raise({10, nullptr});
  channel->raise({9, nullptr});
  channel->raise({10, nullptr});
  EXPECT_EQ(take_all(), (std::vector{9, 10}));
}

TEST_F(EventChannelTest, EventsOfObjectsAreKeptEach) {
  EventSource source{.listener = channel.get()};
  channel->raise({5, &source});
  channel->raise({5, &source});
  EXPECT_EQ(take_all(), (std::vector{5, 5}));
  EXPECT_EQ(source.events_taken, 2u);
}

}  // namespace
}  // namespace verbena::host
