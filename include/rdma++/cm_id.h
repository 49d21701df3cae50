// One identifier of the connection manager: a listener, or an end of a connection.
#pragma once

#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rdma++/cm_channel.h"
#include "rdma++/context.h"
#include "rdma++/queue_pair.h"
#include "rdma++/socket_address.h"

namespace rdma {

/// The peer, or the network on its behalf, said no.
class Rejected : public Error {
 public:
  Rejected(std::string object, int reason, std::vector<std::byte> private_data)
      : Error{"rdma_connect", std::move(object), ECONNREFUSED, text(reason)},
        reason_{reason},
        private_data_{std::move(private_data)} {}
  /// Of the IB specification, table "REJ reason codes": 8 nobody listens, 28 the program said no.
  [[nodiscard]] int reason() const noexcept { return reason_; }
  /// What the peer gave to reject().
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept { return private_data_; }

 private:
  static std::string text(int reason) {
    switch (reason) {
      case 8:
        return "rejected, reason 8: nobody listens on that port";
      case 28:
        return "rejected, reason 28: the peer's program said no";
      default:
        return concat("rejected, reason ", reason);
    }
  }

  int reason_;
  std::vector<std::byte> private_data_;
};

class CmId : public Object<rdma_cm_id> {
 public:
  explicit CmId(const CmChannel& channel, rdma_port_space space = RDMA_PS_TCP)
      : Object{create(channel, space)} {}
  /// Takes over the id of a CONNECT_REQUEST.
  CmId(const CmChannel& channel, rdma_cm_id* raw)
      : Object{own(raw, "rdma_destroy_id", rdma_destroy_id, channel.share())} {}
  /// The same id after rdma_migrate_id: it keeps the new channel alive as well.
  [[nodiscard]] static CmId moved_to(const CmChannel& channel, CmId id) {
    struct Both {  // the id goes first
      Shared<rdma_event_channel> channel;
      Shared<rdma_cm_id> id;
    };
    rdma_cm_id* const raw = id.raw();
    auto both = std::make_shared<Both>(Both{channel.share(), id.share()});
    return CmId{Shared<rdma_cm_id>{std::move(both), raw}};
  }

  void bind(SocketAddress to) {
    if (rdma_bind_addr(raw(), to.raw()) != 0) {
      throw Error{"rdma_bind_addr", to.to_string(), errno,
                  errno == ENODEV ? "no RDMA device has that address" : ""};
    }
  }

  /// Finds the device and the way to `to`; afterwards context() is known.
  void resolve(const CmChannel& channel, SocketAddress to, std::optional<SocketAddress> from,
               Deadline until) {
    const std::string object = concat("to ", to.to_string());
    const int timeout = until.is_never() ? 2000 : std::max(until.poll_timeout(), 1);
    sockaddr* const source = from ? from->raw() : nullptr;
    if (rdma_resolve_addr(raw(), source, to.raw(), timeout) != 0) {
      throw Error{"rdma_resolve_addr", object, errno, unreachable(errno)};
    }
    wait_for(channel, RDMA_CM_EVENT_ADDR_RESOLVED, "rdma_resolve_addr", object, until);
    if (rdma_resolve_route(raw(), timeout) != 0) throw Error{"rdma_resolve_route", object, errno};
    wait_for(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, "rdma_resolve_route", object, until);
  }

  /// Throws what went wrong instead. `also`: a second event that will do.
  CmEvent wait_for(const CmChannel& channel, rdma_cm_event_type wanted, const char* verb,
                   const std::string& object, Deadline until,
                   std::optional<rdma_cm_event_type> also = std::nullopt) const {
    auto event = channel.next(until);
    if (!event) throw TimedOut{verb, object, concat("no ", rdma_event_str(wanted), " in time")};
    if (event->type == wanted || event->type == also) return std::move(*event);
    if (event->type == RDMA_CM_EVENT_REJECTED) {
      throw Rejected{object, event->status, std::move(event->private_data)};
    }
    const int code = event->status < 0 ? -event->status : event->status;
    throw Error{verb, object, code,
                concat(event->name(), " instead of ", rdma_event_str(wanted), unreachable(code))};
  }

  /// The device that resolve() or the request found. Lives as long as the id.
  [[nodiscard]] Context context() const {
    if (raw()->verbs == nullptr) throw Error{"rdma_cm", "id", ENODEV, "it has no device yet"};
    return Context{Shared<ibv_context>{share(), raw()->verbs}};
  }
  [[nodiscard]] SocketAddress local() const { return SocketAddress{rdma_get_local_addr(raw())}; }
  [[nodiscard]] SocketAddress peer() const { return SocketAddress{rdma_get_peer_addr(raw())}; }

  /// Moves the queue pair to `state` with what the connection manager agreed upon; `adjust` may
  /// change that first.
  template <class Adjust>
  void modify(QueuePair& qp, ibv_qp_state state, const char* step, Adjust adjust) const {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    int mask = 0;
    if (rdma_init_qp_attr(raw(), &attr, &mask) != 0) {
      throw Error{"rdma_init_qp_attr", concat(qp.describe(), ' ', step), errno};
    }
    adjust(attr);
    qp.modify(step, attr, mask);
  }

 private:
  explicit CmId(Shared<rdma_cm_id> raw) : Object{std::move(raw)} {}

  static Shared<rdma_cm_id> create(const CmChannel& channel, rdma_port_space space) {
    rdma_cm_id* raw = nullptr;
    if (rdma_create_id(channel.raw(), &raw, nullptr, space) != 0) {
      throw Error{"rdma_create_id", "", errno};
    }
    return own(raw, "rdma_destroy_id", rdma_destroy_id, channel.share());
  }
  static const char* unreachable(int code) {
    switch (code) {
      case ENODEV:
        return ": no RDMA device on the interface that leads there";
      case ENETUNREACH:
      case EHOSTUNREACH:
        return ": no route to that address";
      default:
        return "";
    }
  }
};

}  // namespace rdma
