// Waits for connections.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rdma++/connection.h"
#include "rdma++/value.h"

namespace rdma {

/// Somebody wants to connect: accept() or reject(). Destroying it rejects.
class ConnectionRequest {
 public:
  ConnectionRequest(ConnectionRequest&&) noexcept = default;
  ConnectionRequest& operator=(ConnectionRequest&&) = delete;
  ~ConnectionRequest() {
    if (parts_) send_rejection({});
  }

  /// These, and the rest, before accept() or reject() only.
  [[nodiscard]] SocketAddress peer() const { return open().id.peer(); }
  /// The device that it came in on, to make a ProtectionDomain and a Buffer from.
  [[nodiscard]] Context context() const { return open().id.context(); }
  /// What the peer offered; zeros may follow.
  [[nodiscard]] std::span<const std::byte> private_data() const { return open().private_data; }
  template <Value T>
  [[nodiscard]] T private_value() const {
    return Connection::value_of<T>(private_data(), peer().to_string());
  }

  /// Waits until the peer is there; coroutines use AsyncConnection::accept().
  [[nodiscard]] Connection accept(const ConnectionOptions& options = {}) {
    Connection connection = answer(options);
    connection.wait_until_established(options.timeout);
    return connection;
  }
  /// Up to 148 bytes tell the peer why; it finds them in Rejected::private_data().
  void reject(std::span<const std::byte> why = {}) {
    check_open();
    if (why.size() > detail::kRejectRoom) {
      throw Error{"rdma_reject", peer().to_string(), EMSGSIZE,
                  concat("private data of ", why.size(), " bytes, there is room for ",
                         detail::kRejectRoom)};
    }
    send_rejection(why);
    parts_.reset();
  }

 private:
  friend class AsyncConnection;
  friend class Listener;
  struct Parts {
    CmChannel channel;
    CmId id;
    rdma_conn_param wanted;
    std::vector<std::byte> private_data;
  };
  explicit ConnectionRequest(Parts parts) : parts_{std::make_unique<Parts>(std::move(parts))} {}

  /// Accepted; the peer may not know yet.
  [[nodiscard]] Connection answer(const ConnectionOptions& options) {
    check_open();
    const rdma_conn_param wanted = parts_->wanted;
    Parts parts = std::move(*parts_);
    parts_.reset();
    Connection connection{std::move(parts.channel), std::move(parts.id), options};
    connection.parts_->private_data = std::move(parts.private_data);
    connection.answer_as_server(options, wanted);
    return connection;
  }
  void check_open() const {
    if (!parts_) throw Error{"rdma_accept", "", EINVAL, "the request was answered already"};
  }
  [[nodiscard]] const Parts& open() const {
    check_open();
    return *parts_;
  }
  void send_rejection(std::span<const std::byte> why) noexcept {
    // Fails when the peer has given up: then there is nobody to tell.
    rdma_reject(parts_->id.raw(), why.data(), static_cast<std::uint8_t>(why.size()));
  }

  std::unique_ptr<Parts> parts_;
};

/// On every address of the machine, or on one.
class Listener {
 public:
  explicit Listener(std::uint16_t port, int backlog = 64)
      : Listener{SocketAddress::any(port), backlog} {}
  explicit Listener(const SocketAddress& at, int backlog = 64) {
    id_.bind(at);
    if (rdma_listen(id_.raw(), backlog) != 0) {
      throw Error{
          "rdma_listen", at.to_string(), errno,
          errno == EADDRINUSE && at.port() != 0 ? "somebody listens on that port already" : ""};
    }
  }
  /// On an address of this device; "" is every address.
  [[nodiscard]] static Listener on_device(const std::string& device, std::uint16_t port) {
    if (device.empty()) return Listener{port};
    const Context context{Device::by_name(device)};
    return Listener{SocketAddress::of(context.best_gid(), port)};
  }

  /// The one it got, when it asked for 0.
  [[nodiscard]] std::uint16_t port() const { return ntohs(rdma_get_src_port(id_.raw())); }
  /// For epoll and the like: readable when next() has something.
  [[nodiscard]] int fd() const noexcept { return channel_.fd(); }

  /// nullopt: nobody by then.
  [[nodiscard]] std::optional<ConnectionRequest> next(Deadline until) {
    while (auto event = channel_.next(until)) {
      if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
      CmId id{channel_, event->id};  // owned first: what follows may find no descriptor left
      CmChannel own_channel;
      // From here on its events are its own, so that connections don't wait for each other.
      if (rdma_migrate_id(id.raw(), own_channel.raw()) != 0) {
        throw Error{"rdma_migrate_id", id.peer().to_string(), errno};
      }
      CmId moved = CmId::moved_to(own_channel, std::move(id));
      return ConnectionRequest{
          {std::move(own_channel), std::move(moved), event->conn, std::move(event->private_data)}};
    }
    return std::nullopt;
  }

  /// The next one, accepted. Throws TimedOut.
  [[nodiscard]] Connection accept(const ConnectionOptions& options = {}) {
    return accept(options, Deadline{options.timeout});
  }
  [[nodiscard]] Connection accept(const ConnectionOptions& options, Deadline until) {
    if (auto request = next(until)) return request->accept(options);
    throw TimedOut{"rdma_listen", concat("port ", port()), "nobody connected"};
  }

 private:
  CmChannel channel_;
  CmId id_{channel_};
};

}  // namespace rdma
