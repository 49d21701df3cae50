#include "cm/listeners.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace verbena::cm {
namespace {

using Family = ListenParameters::Family;

const IpAddress kFour = IpAddress::v4({10, 0, 0, 1});
const IpAddress kOther = IpAddress::v4({10, 0, 0, 2});
const IpAddress kSix = *IpAddress::parse("fe80::1");
const ServiceId kService{PortSpace::tcp, 80};

TEST(Listeners, OneOfAKind) {
  Listeners l;
  ASSERT_TRUE(l.add({.service = kService, .address = kFour}).ok());
  const auto again = l.add({.service = kService, .address = kFour});
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, EADDRINUSE);
  EXPECT_EQ(again.error().message,
            "listen: port 80 of 10.0.0.1 has a listener already; close it or take another port");
  EXPECT_TRUE(l.add({.service = kService, .address = kOther}).ok());
  EXPECT_TRUE(l.add({.service = kService, .datagram = true, .address = kFour}).ok());
  EXPECT_TRUE(l.add({.service = kService, .family = Family::v4}).ok());
  EXPECT_TRUE(l.add({.service = kService, .family = Family::v6}).ok());
  EXPECT_FALSE(l.add({.service = kService}).ok());
}

TEST(Listeners, FamiliesOfWildcards) {
  Listeners l;
  const auto six = l.add({.service = kService, .family = Family::v6});
  EXPECT_EQ(l.find(kService, false, kFour), nullptr);
  ASSERT_NE(l.find(kService, false, kSix), nullptr);
  EXPECT_EQ(l.find(kService, false, kSix)->id, *six);
  EXPECT_EQ(l.find(kService, true, kSix), nullptr);
  EXPECT_EQ(l.find(ServiceId{PortSpace::tcp, 81}, false, kSix), nullptr);
}

TEST(Listeners, ClosedOnesAreGone) {
  Listeners l;
  const auto id = l.add({.service = kService});
  l.remove(*id);
  l.remove(*id);
  EXPECT_EQ(l.find(kService, false, kFour), nullptr);
  EXPECT_EQ(l.find(*id), nullptr);
  EXPECT_EQ(l.size(), 0u);
  const auto next = l.add({.service = kService});
  EXPECT_NE(*next, *id);
}

}  // namespace
}  // namespace verbena::cm
