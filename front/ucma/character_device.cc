#include "front/ucma/character_device.h"

#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "cm/connection_manager.h"
#include "front/ucma/addresses.h"
#include "front/ucma/commands.h"
#include "front/ucma/descriptors.h"
#include "front/ucma/newer_commands.h"
#include "front/ucma/passed_on.h"
#include "front/verbs/guarded.h"
#include "system/long_waits.h"

namespace verbena::front::ucma {

namespace {

using Handler = Status (*)(Ucma&, const Command&);

struct Entry {
  const char* name;
  Handler handler;      // nullptr: ENOSYS, as in the kernel
  std::size_t command;  // the least that it must bring
};

constexpr std::array<Entry, 25> kCommands{{
    {"CREATE_ID", create_id, sizeof(rdma_ucm_create_id)},
    {"DESTROY_ID", destroy_id, sizeof(rdma_ucm_destroy_id)},
    {"BIND_IP", bind_ip, sizeof(rdma_ucm_bind_ip)},
    {"RESOLVE_IP", resolve_ip, sizeof(rdma_ucm_resolve_ip)},
    {"RESOLVE_ROUTE", resolve_route, sizeof(rdma_ucm_resolve_route)},
    {"QUERY_ROUTE", query_route, sizeof(rdma_ucm_query)},
    {"CONNECT", connect, offsetof(rdma_ucm_connect, ece)},
    {"LISTEN", listen, sizeof(rdma_ucm_listen)},
    {"ACCEPT", accept, offsetof(rdma_ucm_accept, ece)},
    {"REJECT", reject, sizeof(rdma_ucm_reject)},
    {"DISCONNECT", disconnect, sizeof(rdma_ucm_disconnect)},
    {"INIT_QP_ATTR", init_qp_attr, sizeof(rdma_ucm_init_qp_attr)},
    {"GET_EVENT", nullptr, sizeof(rdma_ucm_get_event)},  // it may wait: see get_event()
    {"GET_OPTION", nullptr, 0},
    {"SET_OPTION", set_option, sizeof(rdma_ucm_set_option)},
    {"NOTIFY", notify, sizeof(rdma_ucm_notify)},
    {"JOIN_IP_MCAST", join_ip_multicast, sizeof(rdma_ucm_join_ip_mcast)},
    {"LEAVE_MCAST", leave_multicast, sizeof(rdma_ucm_destroy_id)},
    {"MIGRATE_ID", migrate_id, sizeof(rdma_ucm_migrate_id)},
    {"QUERY", query, sizeof(rdma_ucm_query)},
    {"BIND", bind, sizeof(rdma_ucm_bind)},
    {"RESOLVE_ADDR", resolve_addr, sizeof(rdma_ucm_resolve_addr)},
    {"JOIN_MCAST", join_multicast, sizeof(rdma_ucm_join_mcast)},
    {"RESOLVE_IB_SERVICE", resolve_ib_service, kResolveIbServiceSize},
    {"WRITE_CM_EVENT", write_cm_event, sizeof(WriteCmEvent)},
}};
static_assert(kCommands.size() == RDMA_USER_CM_CMD_JOIN_MCAST + 3);

/// The program has it now: it will count it, and so do we.
void count(Ucma& ucma, Channel& channel, const QueuedEvent& taken) {
  if (auto owner = ucma.find_id(channel, taken.id)) ++(*owner)->events_reported;
  if (!taken.membership) return;
  if (auto membership = ucma.find_membership(*taken.membership)) ++(*membership)->events_reported;
}

/// Takes the oldest event, if there is one. False: there is none.
Result<bool> take_event(Ucma& ucma, const Command& command) {
  ucma.take_news();
  Channel& channel = command.channel;
  if (channel.events.empty()) {
    channel.quieten(command.fd);
    return false;
  }
  const rdma_ucm_event_resp& next = channel.events.front().event;
  // What programs had before "reserved" and "ece".
  const std::size_t least = offsetof(rdma_ucm_event_resp, reserved);
  if (auto answered =
          command.answer(command.as<rdma_ucm_get_event>().response, &next, sizeof next, least);
      !answered) {
    return answered.error();
  }
  const QueuedEvent taken = channel.take(command.fd);
  count(ucma, channel, taken);
  if (taken.connection) {
    auto nic = ucma.nic();
    if (!nic) return nic.error();
    (*nic)->manage([&](cm::ConnectionManager& m, Instant) { m.taken(*taken.connection); });
  }
  return true;
}

Error gone() {
  return Error{ENODEV, "the event channel was made before fork(), and belongs to the parent"};
}

/// Another thread closed the channel under us. The kernel's call would hold the file open, and
/// wait for an event that can't come any more until a signal or the program's end; programs that
/// close a channel while a thread of theirs waits on it (rping) count on not hearing of it.
ssize_t wait_in_vain() { return kernel::wait_for_signal(); }

/// Waits outside of every lock, where the thread may be cancelled and interrupted.
ssize_t get_event(int fd, ino_t inode, std::span<const std::uint8_t> in, std::size_t room,
                  std::size_t size) {
  Ucma& ucma = Ucma::instance();
  for (;;) {
    bool taken = false;
    bool closed = false;
    const int failed = guarded_status("rdma_get_cm_event", [&]() -> Status {
      const auto lock = ucma.lock();
      Channel* const channel = ucma.find_channel(inode);
      if (channel == nullptr) {
        if (channel_inode(fd) == inode) return gone();
        closed = true;
        return Ok{};
      }
      const Command command{.fd = fd, .channel = *channel, .in = in, .room = room};
      const auto found = take_event(ucma, command);
      if (!found) return found.error();
      taken = *found;
      return Ok{};
    });
    if (failed != 0) return -1;
    if (closed) return wait_in_vain();
    if (taken) return static_cast<ssize_t>(size);
    if (channel_inode(fd) != inode) return wait_in_vain();
    char byte = 0;
    if (kernel::wait_and_recv(fd, &byte, 1, MSG_PEEK) < 0) return -1;  // EAGAIN, EINTR
  }
}

/// An id's events go with it. A thread that has just come from poll() would then wait for one that
/// doesn't come, as in the kernel; but there an event and the end of its id are seldom that close
/// (rping of rdma-core 65 counts on it). So it gets a moment to take the event.
void leave_to_pollers(Ucma& ucma, ino_t inode, std::uint32_t id) {
  constexpr std::chrono::milliseconds kMoment{2};
  const auto is_fresh = [&](const QueuedEvent& e) {
    return e.id == id && std::chrono::steady_clock::now() - e.since < kMoment;
  };
  for (;;) {
    {
      const auto lock = ucma.lock();
      const Channel* const channel = ucma.find_channel(inode);
      if (channel == nullptr || std::ranges::none_of(channel->events, is_fresh)) return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
}

ssize_t fail(int code) {
  errno = code;
  return -1;
}

}  // namespace

int open_device(int flags) noexcept {
  int fd = -1;
  const int failed = guarded_status("open(/dev/infiniband/rdma_cm)", [&]() -> Status {
    Ucma& ucma = Ucma::instance();
    const auto lock = ucma.lock();
    auto opened = ucma.open_channel((flags & O_CLOEXEC) != 0, (flags & O_NONBLOCK) != 0);
    if (!opened) return opened.error();
    fd = *opened;
    return Ok{};
  });
  return failed == 0 ? fd : -1;
}

ssize_t write_device(int fd, ino_t inode, const void* bytes, std::size_t size) {
  rdma_ucm_cmd_hdr header{};
  if (size < sizeof header) return fail(EINVAL);
  if (!copy_from_program(&header, reinterpret_cast<std::uint64_t>(bytes), sizeof header)) {
    return fail(EFAULT);
  }
  if (header.cmd >= kCommands.size()) return fail(EINVAL);
  if (header.in + sizeof header > size) return fail(EINVAL);
  const Entry& entry = kCommands[header.cmd];
  if (header.in < entry.command) return fail(EINVAL);

  std::array<std::uint8_t, 1024> copy{};
  const std::size_t length = std::min<std::size_t>(header.in, copy.size());
  if (!copy_from_program(copy.data(), reinterpret_cast<std::uint64_t>(bytes) + sizeof header,
                         length)) {
    return fail(EFAULT);
  }
  const std::span in{copy.data(), length};
  if (header.cmd == RDMA_USER_CM_CMD_GET_EVENT) return get_event(fd, inode, in, header.out, size);
  if (entry.handler == nullptr) return fail(ENOSYS);

  const int failed = guarded_status(entry.name, [&]() -> Status {
    Ucma& ucma = Ucma::instance();
    if (header.cmd == RDMA_USER_CM_CMD_DESTROY_ID) {
      rdma_ucm_destroy_id request{};
      std::memcpy(&request, in.data(), sizeof request);  // there are as many bytes: see above
      leave_to_pollers(ucma, inode, request.id);
    }
    const auto lock = ucma.lock();
    Channel* const channel = ucma.find_channel(inode);
    if (channel == nullptr) return gone();
    const Command command{.fd = fd, .channel = *channel, .in = in, .room = header.out};
    if (auto passed = pass_on(ucma, header.cmd, command)) return *passed;
    Status done = entry.handler(ucma, command);
    if (!done && done.error().code == kAnothersAddress) {
      done = hand_over(ucma, header.cmd, command);
    }
    ucma.take_news();
    return done;
  });
  return failed == 0 ? static_cast<ssize_t>(size) : -1;
}

void channel_closed(ino_t inode) noexcept {
  const int error = errno;
  static_cast<void>(guarded_status("close", [inode]() -> Status {
    Ucma& ucma = Ucma::instance();
    const auto lock = ucma.lock();
    ucma.closed(inode);
    return Ok{};
  }));
  errno = error;
}

}  // namespace verbena::front::ucma
