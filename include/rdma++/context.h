// An opened device.
#pragma once

#include <infiniband/verbs.h>
#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rdma++/async_event.h"
#include "rdma++/deadline.h"
#include "rdma++/device.h"
#include "rdma++/gid_table.h"
#include "rdma++/object.h"

namespace rdma {

class Context : public Object<ibv_context> {
 public:
  explicit Context(const Device& device) : Context{open(device)} {}
  /// Of somebody else, such as rdma_cm; `raw` keeps that one alive.
  explicit Context(Shared<ibv_context> raw) : Object{std::move(raw)} {
    const int code = ibv_query_device(this->raw(), &limits_);
    if (code != 0) throw Error{"ibv_query_device", concat("device ", name()), code};
  }

  [[nodiscard]] std::string name() const { return ibv_get_device_name(raw()->device); }
  /// max_qp_wr, max_sge and the like.
  [[nodiscard]] const ibv_device_attr& limits() const noexcept { return limits_; }

  [[nodiscard]] ibv_port_attr port(std::uint8_t number = 1) const {
    ibv_port_attr attr{};
    const int code = ibv_query_port(raw(), number, &attr);
    if (code != 0) {
      throw Error{"ibv_query_port", concat("device ", name(), ", port ", int{number}), code,
                  concat("it has ports 1 to ", int{limits_.phys_port_cnt})};
    }
    return attr;
  }
  [[nodiscard]] bool is_active(std::uint8_t number = 1) const {
    return port(number).state == IBV_PORT_ACTIVE;
  }

  /// The rows in use.
  [[nodiscard]] std::vector<GidEntry> gids(std::uint8_t port_number = 1) const {
    return gid_table(raw(), port_number);
  }
  /// The row to speak from, see rdma::best_gid().
  [[nodiscard]] GidEntry best_gid(std::uint8_t port_number = 1,
                                  std::optional<Gid> like = std::nullopt) const {
    return rdma::best_gid(raw(), port_number, like);
  }
  /// The row that holds this address.
  [[nodiscard]] std::optional<GidEntry> find_gid(const Gid& gid,
                                                 std::uint8_t port_number = 1) const {
    for (const GidEntry& row : gids(port_number)) {
      if (row.gid == gid && row.type != IBV_GID_TYPE_ROCE_V1) return row;
    }
    return std::nullopt;
  }

  /// Readable when next_event() has something.
  [[nodiscard]] int event_fd() const noexcept { return raw()->async_fd; }

  /// nullopt: none by then.
  [[nodiscard]] std::optional<AsyncEvent> next_event(Deadline until) const {
    pollfd waiting{.fd = event_fd(), .events = POLLIN, .revents = 0};
    int ready;
    do {
      ready = poll(&waiting, 1, until.poll_timeout());
    } while (ready < 0 && errno == EINTR);
    if (ready < 0) throw Error{"poll", concat("events of device ", name()), errno};
    if (ready == 0) return std::nullopt;
    ibv_async_event raw_event{};
    if (ibv_get_async_event(raw(), &raw_event) != 0) {
      if (errno == EAGAIN) return std::nullopt;  // another thread was faster
      throw Error{"ibv_get_async_event", concat("device ", name()), errno};
    }
    const AsyncEvent event = AsyncEvent::from(raw_event);
    ibv_ack_async_event(&raw_event);
    return event;
  }

 private:
  static Shared<ibv_context> open(const Device& device) {
    ibv_context* const raw = ibv_open_device(device.raw());
    if (raw == nullptr) {
      throw Error{"ibv_open_device", concat("device ", device.name()), errno != 0 ? errno : ENODEV};
    }
    return own(raw, "ibv_close_device", ibv_close_device);
  }

  ibv_device_attr limits_{};
};

}  // namespace rdma
