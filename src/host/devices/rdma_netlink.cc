#include "host/devices/rdma_netlink.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "system/fd.h"
#include "system/kernel_calls.h"

namespace verbena::host {
namespace {

constexpr std::uint16_t kGetCharacterDevice =
    RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET_CHARDEV);

template <typename T>
std::optional<T> value_at(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::span<const std::uint8_t> without(std::span<const std::uint8_t> bytes, std::size_t first) {
  return bytes.subspan(std::min<std::size_t>(first, bytes.size()));
}

struct Request {
  nlmsghdr header;
  nlattr attribute;
  char name[8];
};

std::optional<dev_t> ask() {
  const Fd fd{kernel::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA)};
  if (!fd) return std::nullopt;
  Request request{.header = {.nlmsg_len = sizeof request,
                             .nlmsg_type = kGetCharacterDevice,
                             .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
                             .nlmsg_seq = 0,
                             .nlmsg_pid = 0},
                  .attribute = {.nla_len = sizeof request.attribute + sizeof request.name,
                                .nla_type = RDMA_NLDEV_ATTR_CHARDEV_TYPE},
                  .name = "rdma_cm"};
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (kernel::sendto(fd.get(), &request, sizeof request, 0,
                     reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) < 0) {
    return std::nullopt;
  }
  // The kernel has answered by now. From it alone: any process may send to the socket.
  for (;;) {
    std::array<std::uint8_t, 4096> answer;
    sockaddr_nl from{};
    socklen_t size = sizeof from;
    const ssize_t n = kernel::recvfrom(fd.get(), answer.data(), answer.size(), MSG_DONTWAIT,
                                       reinterpret_cast<sockaddr*>(&from), &size);
    if (n < 0) return std::nullopt;
    if (from.nl_pid == 0) return device_number({answer.data(), static_cast<std::size_t>(n)});
  }
}

}  // namespace

std::optional<dev_t> device_number(std::span<const std::uint8_t> answer) {
  const auto header = value_at<nlmsghdr>(answer);
  if (!header || header->nlmsg_type != kGetCharacterDevice || header->nlmsg_len > answer.size()) {
    return std::nullopt;
  }
  auto left = without(answer.first(header->nlmsg_len), NLMSG_HDRLEN);
  while (const auto attribute = value_at<nlattr>(left)) {
    if (attribute->nla_len < sizeof *attribute || attribute->nla_len > left.size()) break;
    const auto contents = left.first(attribute->nla_len).subspan(NLA_HDRLEN);
    if ((attribute->nla_type & NLA_TYPE_MASK) == RDMA_NLDEV_ATTR_CHARDEV) {
      return value_at<std::uint64_t>(contents);
    }
    left = without(left, NLA_ALIGN(attribute->nla_len));
  }
  return std::nullopt;
}

dev_t rdma_cm_number() {
  const dev_t any_misc_device = makedev(10, 255);
  // It doesn't change while the module is loaded; a module that isn't may be loaded any time.
  static std::atomic<dev_t> known{0};
  if (const dev_t number = known.load(std::memory_order_relaxed); number != 0) return number;
  const int error = errno;
  const auto number = ask();
  errno = error;
  if (number) known.store(*number, std::memory_order_relaxed);
  return number.value_or(any_misc_device);
}

}  // namespace verbena::host
