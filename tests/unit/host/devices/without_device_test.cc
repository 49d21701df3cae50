#include "host/devices/without_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include <cstring>

namespace verbena::host {
namespace {

using testing::HasSubstr;

/// Links of these interfaces, with the flags and without addresses.
LinkTable links_of(std::initializer_list<std::pair<const char*, unsigned>> interfaces) {
  struct Message {
    nlmsghdr header{};
    ifinfomsg info{};
    rtattr attribute{};
    char name[IFNAMSIZ]{};
  };
  LinkTable links;
  int index = 0;
  for (const auto& [name, flags] : interfaces) {
    Message m;
    m.header.nlmsg_len = sizeof m;
    m.header.nlmsg_type = RTM_NEWLINK;
    m.info.ifi_index = ++index;
    m.info.ifi_flags = flags;
    m.attribute.rta_len = RTA_LENGTH(IFNAMSIZ);
    m.attribute.rta_type = IFLA_IFNAME;
    std::strncpy(m.name, name, sizeof m.name - 1);
    links.apply({reinterpret_cast<const std::uint8_t*>(&m), sizeof m});
  }
  return links;
}

TEST(WithoutDevice, EachReasonHasItsNextStep) {
  const auto links = links_of({{"a", 0}, {"b", IFF_UP}, {"c", 0}, {"d", IFF_UP}});
  const auto found = without_device(links, {{"c", "mlx5_0", false}, {"d", "rxe0", true}});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].interface, "a");
  EXPECT_THAT(found[0].reason, HasSubstr("it is down: `ip link set a up`"));
  EXPECT_THAT(found[1].reason, HasSubstr("no address: `ip addr add ADDRESS/LENGTH dev b`"));
  EXPECT_THAT(found[2].reason, HasSubstr("a RoCE card with its own device: use mlx5_0"));
  EXPECT_THAT(found[3].reason, HasSubstr("the kernel's rxe owns its UDP port 4791: use rxe0"));
}

}  // namespace
}  // namespace verbena::host
