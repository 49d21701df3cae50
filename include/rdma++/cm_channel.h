// Events of the connection manager.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "rdma++/deadline.h"
#include "rdma++/object.h"

namespace rdma {

/// A copy; it is acknowledged already, so it holds up nobody's destruction.
struct CmEvent {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;  ///< of a CONNECT_REQUEST: the new one, whom nobody owns yet
  rdma_conn_param conn{};    ///< its private_data is null, see below
  rdma_ud_param ud{};
  std::vector<std::byte> private_data{};

  [[nodiscard]] const char* name() const { return rdma_event_str(type); }
};

class CmChannel : public Object<rdma_event_channel> {
 public:
  CmChannel() : Object{create()} {}

  /// For epoll and the like: readable when next() has something.
  [[nodiscard]] int fd() const noexcept { return raw()->fd; }

  /// nullopt: none by then.
  [[nodiscard]] std::optional<CmEvent> next(Deadline until) const {
    while (true) {
      rdma_cm_event* event = nullptr;
      if (rdma_get_cm_event(raw(), &event) == 0) return take(event);
      if (errno != EAGAIN && errno != EINTR) throw Error{"rdma_get_cm_event", "", errno};
      pollfd waiting{.fd = fd(), .events = POLLIN, .revents = 0};
      const int ready = poll(&waiting, 1, until.poll_timeout());
      if (ready < 0 && errno != EINTR) throw Error{"poll", "event channel", errno};
      if (ready == 0) return std::nullopt;
    }
  }

 private:
  static Shared<rdma_event_channel> create() {
    rdma_event_channel* const raw = rdma_create_event_channel();
    if (raw == nullptr) {
      throw Error{"rdma_create_event_channel", "", errno,
                  errno == ENODEV
                      ? "there is no device; `verbena devices` says why"
                      : "is there /dev/infiniband/rdma_cm? `verbena run` gives a program one"};
    }
    auto channel = own(raw, "rdma_destroy_event_channel", [](rdma_event_channel* gone) {
      rdma_destroy_event_channel(gone);
      return 0;
    });
    // It doesn't block: whoever waits does so with a deadline.
    if (fcntl(raw->fd, F_SETFL, fcntl(raw->fd, F_GETFL) | O_NONBLOCK) != 0) {
      throw Error{"fcntl", "event channel", errno};
    }
    return channel;
  }

  static CmEvent take(rdma_cm_event* raw_event) {
    CmEvent event{.type = raw_event->event, .status = raw_event->status, .id = raw_event->id};
    const bool datagram = raw_event->id != nullptr && raw_event->id->ps == RDMA_PS_UDP;
    const void* data;
    std::size_t size;
    if (datagram) {
      event.ud = raw_event->param.ud;
      data = event.ud.private_data;
      size = event.ud.private_data_len;
      event.ud.private_data = nullptr;
    } else {
      event.conn = raw_event->param.conn;
      data = event.conn.private_data;
      size = event.conn.private_data_len;
      event.conn.private_data = nullptr;
    }
    if (data != nullptr) {
      const auto* const first = static_cast<const std::byte*>(data);
      event.private_data.assign(first, first + size);
    }
    rdma_ack_cm_event(raw_event);
    return event;
  }
};

}  // namespace rdma
