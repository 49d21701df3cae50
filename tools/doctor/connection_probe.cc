#include "tools/doctor/connection_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/doctor/child.h"
#include "tools/doctor/message_pair.h"
#include "tools/verbena/library_view.h"

namespace verbena::doctor {
namespace {

using nlohmann::json;
using CallClock = std::chrono::steady_clock;

constexpr std::uint32_t kSmallMessage = 64;
constexpr std::uint32_t kSendSlot = 0, kReceiveSlot = 1;

bool readable_until(int fd, CallClock::time_point until) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - CallClock::now()).count();
    if (left < 0) return false;
    pollfd entry{fd, POLLIN, 0};
    const int ready = poll(&entry, 1, static_cast<int>(left) + 1);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// The calls of a client, in their order; each step fills in what it found out.
class Caller {
 public:
  Caller(const Address& to, CallClock::time_point until, ConnectionProbe& found)
      : to_{to},
        until_{until},
        found_{found},
        channel_{rdma_create_event_channel(), &rdma_destroy_event_channel} {
    if (!channel_) throw std::runtime_error{fmt::format("rdma_cm: {}", std::strerror(errno))};
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    if (rdma_create_id(channel_.get(), &id_, nullptr, RDMA_PS_TCP) != 0) {
      throw std::runtime_error{fmt::format("rdma_create_id: {}", std::strerror(errno))};
    }
  }
  ~Caller() {
    pair_.reset();
    rdma_destroy_id(id_);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void call() {
    if (!resolve_device()) return;
    pair_ = std::make_unique<MessagePair>(id_);
    rdma_conn_param parameters = connection_parameters();
    if (rdma_connect(id_, &parameters) != 0) return failed("rdma_connect", errno);
    if (!answered()) return;
    found_.small_back = comes_back(kSmallMessage);
    found_.large_back = found_.small_back && comes_back(MessagePair::kSlotBytes);
    found_.way = way();
    rdma_disconnect(id_);
  }

 private:
  void failed(const char* call, int error) {
    found_.error = error;
    found_.problem = fmt::format("{}: {}", call, std::strerror(error));
  }

  /// nullopt: none came in time.
  struct Event {
    rdma_cm_event_type type;
    int status;
  };
  std::optional<Event> next_event() {
    rdma_cm_event* event = nullptr;
    if (!readable_until(channel_->fd, until_) || rdma_get_cm_event(channel_.get(), &event) != 0) {
      return std::nullopt;
    }
    const Event copy{event->event, event->status};
    rdma_ack_cm_event(event);
    return copy;
  }

  bool resolve_device() {
    constexpr int kMilliseconds = 2000;
    if (rdma_resolve_addr(id_, nullptr, to_.get(), kMilliseconds) != 0) {
      found_.answer = Answer::no_device;
      failed("rdma_resolve_addr", errno);
      return false;
    }
    auto event = next_event();
    if (!event || event->type != RDMA_CM_EVENT_ADDR_RESOLVED) {
      found_.answer = Answer::no_device;
      failed("rdma_resolve_addr", event ? -event->status : ETIMEDOUT);
      return false;
    }
    found_.device = ibv_get_device_name(id_->verbs->device);
    ibv_port_attr port{};
    if (ibv_query_port(id_->verbs, id_->port_num, &port) == 0) {
      found_.mtu = 128u << static_cast<unsigned>(port.active_mtu);
    }
    if (rdma_resolve_route(id_, kMilliseconds) != 0) {
      failed("rdma_resolve_route", errno);
      return false;
    }
    event = next_event();
    if (event && event->type == RDMA_CM_EVENT_ROUTE_RESOLVED) return true;
    failed("rdma_resolve_route", event ? -event->status : ETIMEDOUT);
    return false;
  }

  /// True: connected.
  bool answered() {
    const auto event = next_event();
    if (!event) {
      failed("rdma_connect", ETIMEDOUT);
      return false;
    }
    found_.problem = fmt::format("{}, status {}", rdma_event_str(event->type), event->status);
    found_.error = event->status < 0 ? -event->status : event->status;
    if (event->type == RDMA_CM_EVENT_REJECTED) found_.answer = Answer::rejected;
    if (event->type == RDMA_CM_EVENT_UNREACHABLE) found_.answer = Answer::unreachable;
    if (event->type != RDMA_CM_EVENT_ESTABLISHED) return false;
    found_.answer = Answer::established;
    found_.problem.clear();
    found_.error = 0;
    return true;
  }

  /// Does a message of so many bytes come back as it was?
  bool comes_back(std::uint32_t bytes) {
    const auto sent = pair_->slot(kSendSlot).first(bytes);
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 + bytes);
    pair_->post_receive(kReceiveSlot);
    pair_->post_send(kSendSlot, bytes);
    bool left = false, back = false;
    while (!left || !back) {
      if (!readable_until(pair_->fd(), until_)) {
        found_.problem = fmt::format("a message of {} bytes doesn't come back", bytes);
        return false;
      }
      for (const ibv_wc& completion : pair_->completions()) {
        if (completion.status != IBV_WC_SUCCESS) {
          found_.problem = fmt::format("a message of {} bytes ends with {}", bytes,
                                       ibv_wc_status_str(completion.status));
          return false;
        }
        left = left || completion.wr_id == kSendSlot;
        back = back || (completion.wr_id == kReceiveSlot && completion.byte_len == bytes);
      }
    }
    if (std::ranges::equal(sent, pair_->slot(kReceiveSlot).first(bytes))) return true;
    found_.problem = fmt::format("a message of {} bytes comes back with other contents", bytes);
    return false;
  }

  static std::string way() {
    for (const json& process : tool::read_library_file("processes")) {
      if (process.at("pid") != getpid() || !process.at("answers").get<bool>()) continue;
      for (const json& port : process.at("statistics").at("ports")) {
        if (port.at("connections").at("shm") > 0) return "shm";
        if (port.at("connections").at("udp") > 0) return "udp";
      }
    }
    return "";
  }

  Address to_;
  CallClock::time_point until_;
  ConnectionProbe& found_;
  std::unique_ptr<rdma_event_channel, decltype(&rdma_destroy_event_channel)> channel_;
  rdma_cm_id* id_ = nullptr;
  std::unique_ptr<MessagePair> pair_;
};

}  // namespace

ConnectionProbe probe_connection(const Address& to, std::chrono::milliseconds patience) {
  ConnectionProbe found;
  try {
    Caller{to, CallClock::now() + patience, found}.call();
  } catch (const std::exception& error) {
    found.problem = error.what();
  }
  return found;
}

json to_json_object(const ConnectionProbe& p) {
  return {{"answer", static_cast<int>(p.answer)},
          {"error", p.error},
          {"problem", p.problem},
          {"device", p.device},
          {"mtu", p.mtu},
          {"small_back", p.small_back},
          {"large_back", p.large_back},
          {"way", p.way}};
}

ConnectionProbe connection_probe_in(const json& o) {
  return {static_cast<Answer>(o.at("answer").get<int>()),
          o.at("error"),
          o.at("problem"),
          o.at("device"),
          o.at("mtu"),
          o.at("small_back"),
          o.at("large_back"),
          o.at("way")};
}

ConnectionProbe probe_in_child(const std::string& host, std::uint16_t port) {
  const Outcome outcome =
      run_program(verbena_with({"doctor", "--probe", "--port", std::to_string(port), host}),
                  std::chrono::seconds{15});
  const json object = json::parse(outcome.output, nullptr, false);
  if (object.is_object()) return connection_probe_in(object);
  ConnectionProbe found;
  found.problem = outcome.in_time ? outcome.errors : "the process that connects doesn't end";
  return found;
}

}  // namespace verbena::doctor
