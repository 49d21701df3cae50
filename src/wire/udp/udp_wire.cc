#include "wire/udp/udp_wire.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "system/kernel_calls.h"
#include "system/system_error.h"
#include "wire/tap.h"
#include "wire/udp/hand_over.h"
#include "wire/udp/steering.h"

namespace verbena::wire {
namespace {

// How the caller's buffers are used: the first bytes to receive, the rest to send.
constexpr std::size_t kReceiveBytes = Receiver::kBuffers * Receiver::kBufferBytes;
static_assert(kReceiveBytes + (1u << 20) <= UdpWire::kBufferBytes);

Fd make_epoll() { return Fd{kernel::epoll_create1(EPOLL_CLOEXEC)}; }

/// Probes travel between the processes of this host only, and never with frames.
bool of_probes(const Train& t) {
  return Probe::decode(t.whole.bytes.first(std::min(t.segment, t.whole.bytes.size()))).has_value();
}

/// Trains that the receiver takes from one address.
class Arrivals final : public TrainSink {
 public:
  Arrivals(Demultiplexer& demultiplexer, Tap* tap, ReceiveAddress& at, DatagramSink& sink)
      : demultiplexer_{demultiplexer}, tap_{tap}, at_{at}, sink_{sink} {}

  void train(const Train& t) override {
    if (tap_ != nullptr && !of_probes(t)) tap_->received(t, at_.interface());
    frames += demultiplexer_.arrived(t, at_, sink_);
  }

  std::size_t frames = 0;

 private:
  Demultiplexer& demultiplexer_;
  Tap* tap_;
  ReceiveAddress& at_;
  DatagramSink& sink_;
};

}  // namespace

Result<std::unique_ptr<UdpWire>> UdpWire::create(registry::Registry& registry,
                                                 std::span<std::uint8_t> buffers) {
  if (buffers.size() < kBufferBytes) {
    return Error{EINVAL, "wire: " + std::to_string(buffers.size()) + " bytes of buffers, " +
                             std::to_string(kBufferBytes) + " needed"};
  }
  Fd data = make_epoll();
  Fd control = make_epoll();
  if (!data || !control) {
    return system_error(errno, "epoll_create1 for the wire",
                        "raise the limit of open files (ulimit -n) if it is reached");
  }
  return std::unique_ptr<UdpWire>{
      new UdpWire{registry, buffers, std::move(data), std::move(control)}};
}

UdpWire::UdpWire(registry::Registry& registry, std::span<std::uint8_t> buffers, Fd data, Fd control)
    : registry_{registry},
      data_epoll_{std::move(data)},
      control_epoll_{std::move(control)},
      receiver_{buffers.first(kReceiveBytes), counters_},
      transmitter_{buffers.subspan(kReceiveBytes), sockets_, counters_, data_epoll_.get()},
      addresses_{registry, data_epoll_.get()},
      demultiplexer_{registry, counters_} {
  registry_.watch(*this);
}

UdpWire::~UdpWire() {
  if (abandoned_) return;
  registry_.unwatch(*this);
  addresses_.leave_all();
}

Status UdpWire::open_address(const LocalAddress& local) {
  auto opened = addresses_.open(local);
  if (opened) sockets_.add_address(local);
  return opened;
}

std::size_t UdpWire::receive(DatagramSink& sink) {
  if (transmitter_.waiting()) transmitter_.flush();
  std::size_t frames = 0;
  addresses_.for_each_ready([&](ReceiveAddress& address) {
    Arrivals arrivals{demultiplexer_, tap_, address, sink};
    receiver_.receive(address.socket, arrivals);
    frames += arrivals.frames;
  });
  return frames;
}

void UdpWire::serve_control(DatagramSink& sink) {
  sockets_.for_each_management([&](const SendSocket& socket) {
    while (const auto said = undelivered_.next(socket)) sink.undelivered(*said);
  });
}

void UdpWire::message(const registry::PeerMessage& message, DatagramSink& sink) {
  const auto train = handed_over_train(message.bytes);
  if (!train) return;
  const unsigned interface = addresses_.interface_of(train->whole.destination);
  if (tap_ != nullptr) tap_->received(*train, interface);
  demultiplexer_.handed_over(*train, interface, sink);
}

/// The control descriptor wakes when the socket has something to tell.
Result<std::uint16_t> UdpWire::management_port(const IpAddress& address) {
  auto port = sockets_.management_port(address);
  SendSocket* const socket = port ? sockets_.find(address, *port) : nullptr;
  if (socket == nullptr || !socket->tells || socket->watched) return port;
  epoll_event event{};  // no events: errors are always told
  socket->watched =
      kernel::epoll_ctl(control_epoll_.get(), EPOLL_CTL_ADD, socket->fd.get(), &event) == 0;
  return port;
}

void UdpWire::set_tap(Tap* tap) {
  tap_ = tap;
  transmitter_.set_tap(tap);
}

void UdpWire::abandon() {
  abandoned_ = true;
  addresses_.close();
  sockets_.close();
  data_epoll_.reset();
  control_epoll_.reset();
}

}  // namespace verbena::wire
