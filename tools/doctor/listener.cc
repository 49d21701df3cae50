#include "tools/doctor/listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/doctor/gpu_check.h"
#include "tools/doctor/message_pair.h"
#include "tools/doctor/sockets.h"
#include "tools/doctor/text.h"
#include "tools/doctor/udp_probe.h"
#include "tools/verbena/library_view.h"

namespace verbena::doctor {
namespace {

using nlohmann::json;

// Each doctor has one, for a second.
constexpr std::size_t kMostConnections = 16;
constexpr int kBacklog = 16;

[[noreturn]] void cannot(const std::string& call) {
  throw std::system_error{errno, std::generic_category(), call};
}

/// A connection whose messages go back to where they came from.
class Echo {
 public:
  explicit Echo(rdma_cm_id* id) : id_{id}, pair_{std::in_place, id} {
    for (std::uint32_t slot = 0; slot < MessagePair::kSlots; ++slot) pair_->post_receive(slot);
    rdma_conn_param parameters = connection_parameters();
    if (rdma_accept(id_, &parameters) != 0) cannot("rdma_accept");
  }
  ~Echo() {
    pair_.reset();
    rdma_destroy_id(id_);
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  [[nodiscard]] int fd() const { return pair_->fd(); }
  [[nodiscard]] bool is(const rdma_cm_id* id) const { return id_ == id; }

  void serve() {
    for (const ibv_wc& completion : pair_->completions()) {
      if (completion.status != IBV_WC_SUCCESS) continue;  // it is disconnected soon
      const auto slot = static_cast<std::uint32_t>(completion.wr_id);
      if (completion.opcode == IBV_WC_RECV) {
        pair_->post_send(slot, completion.byte_len);
      } else {
        pair_->post_receive(slot);
      }
    }
  }

 private:
  rdma_cm_id* id_;
  std::optional<MessagePair> pair_;
};

/// What all processes of this user have received.
PeerNews news_for(std::string client) {
  PeerNews news{std::move(client)};
  for (const json& process : tool::read_library_file("processes")) {
    if (!process.at("answers").get<bool>()) continue;
    const json& wire = process.at("statistics").at("wire");
    news.icrc_errors += wire.value("icrc_errors", std::uint64_t{0});
    news.frames_received += wire.value("frames_received", std::uint64_t{0});
  }
  return news;
}

class Server {
 public:
  explicit Server(const Address& at)
      : tcp_{bound_socket(at, SOCK_STREAM)},
        port_{name_of_socket(tcp_).port()},
        udp_{bound_socket(at.at_port(port_), SOCK_DGRAM)},
        channel_{rdma_create_event_channel(), &rdma_destroy_event_channel} {
    if (::listen(tcp_.fd(), kBacklog) != 0) cannot("listen");
    if (!channel_) cannot("rdma_create_event_channel");
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    if (rdma_create_id(channel_.get(), &listener_, nullptr, RDMA_PS_TCP) != 0) {
      cannot("rdma_create_id");
    }
    Address local = at.at_port(port_);
    if (rdma_bind_addr(listener_, local.get()) != 0) cannot("rdma_bind_addr");
    if (rdma_listen(listener_, kBacklog) != 0) cannot("rdma_listen");
    never_fragment(udp_, at.is_v4());
  }
  ~Server() {
    echoes_.clear();
    rdma_destroy_id(listener_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }

  [[noreturn]] void serve() {
    for (;;) {
      std::vector<pollfd> fds{
          {tcp_.fd(), POLLIN, 0}, {udp_.fd(), POLLIN, 0}, {channel_->fd, POLLIN, 0}};
      for (const Echo& echo : echoes_) fds.push_back({echo.fd(), POLLIN, 0});
      if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) cannot("poll");
      // Before an event may destroy one of them.
      for (Echo& echo : echoes_) echo.serve();
      if (fds[0].revents != 0) tell();
      if (fds[1].revents != 0) return_datagram(udp_);
      if (fds[2].revents != 0) take_event();
    }
  }

 private:
  /// A client that goes away at once is its own affair.
  void tell() {
    Address client;
    socklen_t size = sizeof client.bytes;
    const int fd = accept4(tcp_.fd(), client.get(), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    const PeerNews news = news_for(client.text());
    const std::string line = json{{"verbena_doctor", 1},
                                  {"you", news.you},
                                  {"icrc_errors", news.icrc_errors},
                                  {"frames_received", news.frames_received}}
                                 .dump() +
                             "\n";
    (void)send(fd, line.data(), line.size(), MSG_NOSIGNAL);
    close(fd);
  }

  void take_event() {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_.get(), &event) != 0) return;
    const rdma_cm_event_type type = event->event;
    rdma_cm_id* const id = event->id;
    rdma_ack_cm_event(event);
    switch (type) {
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        return accept(id);
      case RDMA_CM_EVENT_DISCONNECTED:
      case RDMA_CM_EVENT_CONNECT_ERROR:
      case RDMA_CM_EVENT_UNREACHABLE:
      case RDMA_CM_EVENT_REJECTED:
      case RDMA_CM_EVENT_DEVICE_REMOVAL:
        if (type == RDMA_CM_EVENT_DISCONNECTED) rdma_disconnect(id);
        echoes_.remove_if([&](const Echo& echo) { return echo.is(id); });
        return;
      default:
        return;
    }
  }

  void accept(rdma_cm_id* id) {
    if (echoes_.size() >= kMostConnections) {
      rdma_reject(id, nullptr, 0);
      rdma_destroy_id(id);
      return;
    }
    try {
      echoes_.emplace_back(id);
    } catch (const std::system_error& error) {
      fmt::print(stderr, "verbena doctor: {}\n", error.what());
    }
  }

  Socket tcp_;
  std::uint16_t port_;
  Socket udp_;
  std::unique_ptr<rdma_event_channel, decltype(&rdma_destroy_event_channel)> channel_;
  rdma_cm_id* listener_ = nullptr;
  std::list<Echo> echoes_;
};

}  // namespace

int listen_for_doctors(const ListenOptions& options) {
  Address at = wildcard(options.port);
  if (!options.at.empty()) {
    const Resolved named = resolve(options.at);
    if (!named.address) throw std::runtime_error{options.at + ": " + named.problem};
    at = named.address->at_port(options.port);
  }
  Server server{at};
  if (options.json) {
    const json ready{{"port", server.port()},
                     {"version", read_text("/sys/module/verbena/version").value_or("")},
                     {"buffers", tool::read_library_file("buffers")},
                     {"gpu_memory", library_registers_gpu_memory()}};
    fmt::print("{}\n", ready.dump());
  } else {
    const std::string port =
        server.port() == kDoctorPort ? "" : fmt::format(" --port {}", server.port());
    fmt::print("ready: on the other host, run verbena doctor{} HOST, with this host's name\n",
               port);
  }
  std::fflush(stdout);
  server.serve();
}

}  // namespace verbena::doctor
