#include "host/events/completion_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "host/nic.h"

namespace verbena::host {
namespace {

struct CompletionChannelTest : testing::Test {
  CompletionChannelTest() : channel{CompletionChannel::create().value()} {
    fcntl(channel->fd(), F_SETFL, fcntl(channel->fd(), F_GETFL) | O_NONBLOCK);
  }
  /// All that wait; EAGAIN after them.
  std::vector<CompletionQueue*> take_all() {
    std::vector<CompletionQueue*> taken;
    for (;;) {
      const auto event = channel->get();
      if (!event) {
        EXPECT_EQ(event.error().code, EAGAIN);
        return taken;
      }
      taken.push_back(*event);
    }
  }
  std::unique_ptr<CompletionChannel> channel;
  CompletionQueue a{4, channel.get(), {}};
  CompletionQueue b{4, channel.get(), {}};
  CompletionQueue c{4, channel.get(), {}};
};

using Queues = std::vector<CompletionQueue*>;

TEST_F(CompletionChannelTest, EveryEventIsTakenOnceAndCounted) {
  for (CompletionQueue* q : {&a, &a, &b, &a}) channel->raise(*q);
  EXPECT_EQ(take_all(), (Queues{&a, &b, &a, &a}));
  EXPECT_EQ(a.events_taken, 3u);
  EXPECT_EQ(b.events_taken, 1u);
  channel->raise(b);
  EXPECT_EQ(take_all(), (Queues{&b}));
}

TEST_F(CompletionChannelTest, IsReadableWhileAnEventWaits) {
  const auto readable = [&] {
    pollfd p{channel->fd(), POLLIN, 0};
    return poll(&p, 1, 0) == 1;
  };
  for (CompletionQueue* q : {&a, &b, &a}) channel->raise(*q);
  channel->forget(a);
  EXPECT_TRUE(readable());
  EXPECT_EQ(take_all(), (Queues{&b}));
  channel->raise(c);
  channel->forget(c);
  EXPECT_FALSE(readable());
}

TEST_F(CompletionChannelTest, AnyNumberOfEventsWaits) {
  constexpr std::size_t kMany = 150'000;  // far more than a pipe holds
  for (std::size_t i = 0; i < kMany; ++i) channel->raise(i % 3 == 0 ? a : b);
  const auto taken = take_all();
  EXPECT_EQ(taken.size(), kMany);
  EXPECT_EQ(a.events_taken, kMany / 3);

  for (std::size_t i = 0; i < kMany; ++i) channel->raise(i % 3 == 0 ? a : b);
  channel->raise(c);
  channel->forget(b);
  EXPECT_EQ(take_all().size(), kMany / 3 + 1);
  channel->raise(c);
  EXPECT_EQ(take_all(), (Queues{&c}));
}

TEST_F(CompletionChannelTest, AProgramThatClosesTheDescriptorLives) {
  const int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(dup3(other, channel->fd(), O_CLOEXEC), channel->fd());
  close(other);
  channel->raise(a);  // no SIGPIPE
}

TEST_F(CompletionChannelTest, AQueueThatGoesTakesItsEventsAlong) {
  for (CompletionQueue* gone : {&a, &b, &c}) {
    SCOPED_TRACE(gone == &a ? "first" : gone == &b ? "middle" : "last");
    Queues others;
    for (CompletionQueue* q : {&a, &b, &c}) {
      channel->raise(*q);
      if (q != gone) others.push_back(q);
    }
    channel->raise(*gone);
    channel->forget(*gone);
    EXPECT_EQ(take_all(), others);
    channel->raise(*gone);  // the list is whole
    EXPECT_EQ(take_all(), (Queues{gone}));
  }
}

}  // namespace
}  // namespace verbena::host
