#include "host/devices/netlink.h"

#include <fmt/format.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "host/log.h"
#include "system/fd.h"
#include "system/kernel_calls.h"

namespace verbena::host {

namespace {

using Buffer = LinkNews::Buffer;

/// A dump that a change ran into is asked for again, so often at most.
constexpr int kMostLooks = 16;

Error failed(const char* call) {
  const int code = errno;
  return {code, fmt::format("{} on rtnetlink, which tells of network interfaces: {}", call,
                            std::strerror(code))};
}

Result<Fd> open_socket(int flags) {
  Fd fd = Fd{kernel::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE)};
  if (!fd) return failed("socket");
  return fd;
}

/// The bytes of one datagram; EAGAIN and its like in errno when there is none. From the kernel
/// alone: any process may send to the socket.
std::optional<std::span<const std::uint8_t>> receive(int fd, Buffer& buffer) {
  for (;;) {
    sockaddr_nl from{};
    socklen_t size = sizeof from;
    const ssize_t n = kernel::recvfrom(fd, buffer.data(), buffer.size(), 0,
                                       reinterpret_cast<sockaddr*>(&from), &size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (from.nl_pid != 0) continue;
    return std::span<const std::uint8_t>{buffer.data(), static_cast<std::size_t>(n)};
  }
}

/// What the messages of a dump say beside their contents.
struct Progress {
  bool done = false;
  bool interrupted = false;  // the table changed under the dump, which may be wrong now
  int error = 0;
};

void follow(Progress& progress, std::span<const std::uint8_t> bytes) {
  while (bytes.size() >= sizeof(nlmsghdr)) {
    nlmsghdr h;
    std::memcpy(&h, bytes.data(), sizeof h);
    if (h.nlmsg_len < sizeof h || h.nlmsg_len > bytes.size()) return;
    progress.interrupted = progress.interrupted || (h.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    progress.done = progress.done || h.nlmsg_type == NLMSG_DONE;
    if (h.nlmsg_type == NLMSG_ERROR && h.nlmsg_len >= NLMSG_LENGTH(sizeof(nlmsgerr))) {
      nlmsgerr e;
      std::memcpy(&e, bytes.data() + NLMSG_HDRLEN, sizeof e);
      progress.error = -e.error;
    }
    bytes = bytes.subspan(std::min<std::size_t>(NLMSG_ALIGN(h.nlmsg_len), bytes.size()));
  }
}

/// All links, or all addresses, into the table. False: a change ran into it.
Result<bool> dump(int fd, std::uint16_t type, LinkTable& into) {
  struct Request {
    nlmsghdr header;
    rtgenmsg family;
  } request{};
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof request.family);
  request.header.nlmsg_type = type;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.family.rtgen_family = AF_UNSPEC;
  if (kernel::send(fd, &request, request.header.nlmsg_len, 0) < 0) return failed("send");

  const auto buffer = std::make_unique<Buffer>();
  Progress progress;
  while (!progress.done) {
    const auto bytes = receive(fd, *buffer);
    if (!bytes) return failed("recvfrom");
    follow(progress, *bytes);
    if (progress.error != 0) {
      errno = progress.error;
      return failed("a dump");
    }
    into.apply(*bytes);
  }
  return !progress.interrupted;
}

}  // namespace

Result<LinkTable> ask_for_links() {
  auto fd = open_socket(0);
  if (!fd) return fd.error();
  for (int i = 0; i < kMostLooks; ++i) {
    LinkTable links;
    const auto first = dump(fd->get(), RTM_GETLINK, links);
    if (!first) return first.error();
    const auto second = dump(fd->get(), RTM_GETADDR, links);
    if (!second) return second.error();
    if (*first && *second) return links;
  }
  return Error{
      EAGAIN, fmt::format("the network interfaces changed during each of {} attempts to list them; "
                          "try again",
                          kMostLooks)};
}

Result<LinkNews> LinkNews::subscribe() {
  auto fd = open_socket(SOCK_NONBLOCK);
  if (!fd) return fd.error();
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (kernel::bind(fd->get(), reinterpret_cast<const sockaddr*>(&groups), sizeof groups) != 0) {
    // Some sandboxes tell nobody. The devices are then those of now.
    log(LogLevel::warn, "can't watch the network interfaces: rtnetlink: {}", std::strerror(errno));
  }
  return LinkNews{std::move(*fd), std::make_unique<Buffer>()};
}

LinkNews::Outcome LinkNews::read(LinkTable& into) {
  Outcome outcome = Outcome::nothing;
  for (;;) {
    const auto bytes = receive(fd_.get(), *buffer_);
    if (!bytes && errno != ENOBUFS) return outcome;
    if (!bytes) {
      outcome = Outcome::overrun;
    } else if (outcome != Outcome::overrun) {
      // After an overrun what waits is older than what was lost: it would undo it.
      into.apply(*bytes);
      outcome = Outcome::complete;
    }
  }
}

}  // namespace verbena::host
