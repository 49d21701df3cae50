#include "host/devices/rdma_netlink.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/sysmacros.h>

#include <cstring>
#include <vector>

namespace verbena::host {
namespace {

/// A message as the kernel makes it.
class Message {
 public:
  explicit Message(std::uint16_t type) : bytes_(NLMSG_HDRLEN) {
    nlmsghdr header{};
    header.nlmsg_type = type;
    std::memcpy(bytes_.data(), &header, sizeof header);
  }

  template <typename T>
  Message& add(std::uint16_t type, const T& value) {
    const nlattr header{static_cast<std::uint16_t>(NLA_HDRLEN + sizeof value), type};
    const auto at = bytes_.size();
    bytes_.resize(at + NLA_ALIGN(header.nla_len));
    std::memcpy(&bytes_[at], &header, sizeof header);
    std::memcpy(&bytes_[at + NLA_HDRLEN], &value, sizeof value);
    return *this;
  }

  [[nodiscard]] std::vector<std::uint8_t> bytes() const {
    auto all = bytes_;
    const auto length = static_cast<std::uint32_t>(all.size());
    std::memcpy(all.data(), &length, sizeof length);
    return all;
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

constexpr std::uint16_t kAnswer = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET_CHARDEV);
constexpr std::uint64_t kNumber = 0xa7d;  // 10:125

Message answer() {
  Message m{kAnswer};
  const char name[8] = "rdma_cm";
  m.add(RDMA_NLDEV_ATTR_CHARDEV_ABI, std::uint64_t{4});
  m.add(RDMA_NLDEV_ATTR_CHARDEV_NAME, name);
  return m;
}

TEST(RdmaNetlink, TheNumberOfTheDevice) {
  const auto number = device_number(answer().add(RDMA_NLDEV_ATTR_CHARDEV, kNumber).bytes());
  EXPECT_EQ(number, makedev(10, 125));
}

TEST(RdmaNetlink, NoNumberInIt) {
  EXPECT_EQ(device_number({}), std::nullopt);
  EXPECT_EQ(device_number(answer().bytes()), std::nullopt);
  const nlmsgerr refused{.error = -ENOENT, .msg = {}};
  EXPECT_EQ(device_number(Message{NLMSG_ERROR}.add(0, refused).bytes()), std::nullopt);
}

TEST(RdmaNetlink, CutOffAnywhere) {
  const auto whole = answer().add(RDMA_NLDEV_ATTR_CHARDEV, kNumber).bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(device_number(std::span{whole}.first(size)), std::nullopt) << size;
  }
  auto endless = whole;
  endless[NLMSG_HDRLEN] = 0;  // an attribute of no length
  EXPECT_EQ(device_number(endless), std::nullopt);
}

}  // namespace
}  // namespace verbena::host
