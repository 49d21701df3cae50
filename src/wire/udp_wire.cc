#include "wire/udp_wire.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "packet/bth.h"
#include "packet/cm_steering.h"
#include "packet/icrc.h"
#include "packet/mad.h"
#include "packet/packet.h"
#include "system/kernel_calls.h"
#include "wire/capture.h"
#include "wire/fd.h"
#include "wire/gsi_route.h"
#include "wire/peers.h"
#include "wire/port_table.h"
#include "wire/receiver.h"
#include "wire/registry.h"
#include "wire/reuseport_group.h"
#include "wire/send_sockets.h"
#include "wire/system.h"
#include "wire/transmitter.h"
#include "wire/udp_socket.h"

namespace verbena::wire {
namespace {

/// What a connection request is for; nullopt: it is none.
std::optional<packet::ServiceId> service_of(const packet::Datagram& d) {
  const auto target = packet::cm_target(d.bytes);
  const auto* request = target ? std::get_if<packet::ToListener>(&*target) : nullptr;
  return request != nullptr ? std::optional{request->service} : std::nullopt;
}

constexpr std::size_t kMinFrame = packet::Bth::kSize + packet::kIcrcSize;

// How the caller's buffers are used: received, handed over to us, to be sent.
constexpr std::size_t kReceiveBytes = Receiver::kBuffers * Receiver::kBufferBytes;
constexpr std::size_t kHandOverBytes = Receiver::kBufferBytes;
static_assert(kReceiveBytes + kHandOverBytes + (1u << 20) <= UdpWire::kBufferBytes);

constexpr Qpn kMulticast{Qpn::kMask};

/// Every process has these; whoever gets the frame keeps it.
bool is_everyones(Qpn qpn) {
  constexpr Qpn kSmi{0};
  return qpn == kSmi || qpn == kMulticast;
}

bool icrc_is_right(const packet::Datagram& d) {
  const auto size = d.bytes.size() - packet::kIcrcSize;
  const packet::IcrcHeaders headers{.source = d.source,
                                    .destination = d.destination,
                                    .source_port = d.source_port,
                                    .destination_port = packet::kRocePort,
                                    .identification = d.identification};
  return packet::recover_identification(headers, d.bytes.first(size),
                                        packet::load_icrc(&d.bytes[size]))
      .has_value();
}

Fd make_epoll() { return Fd{kernel::epoll_create1(EPOLL_CLOEXEC)}; }

}  // namespace

class UdpWire::Impl {
 public:
  Impl(std::span<std::uint8_t> buffers, Registration registration, Fd data, Fd control,
       std::unique_ptr<Faults> faults, std::unique_ptr<Capture> capture)
      : slot_{registration.slot},
        faults_{std::move(faults)},
        capture_{std::move(capture)},
        data_epoll_{std::move(data)},
        control_epoll_{std::move(control)},
        table_{std::move(registration.table)},
        peers_{slot_, std::move(registration.listener), table_.fd(),
               buffers.subspan(kReceiveBytes, kHandOverBytes), control_epoll_.get()},
        receiver_{buffers.first(kReceiveBytes), counters_},
        transmitter_{buffers.subspan(kReceiveBytes + kHandOverBytes),
                     sockets_,
                     counters_,
                     data_epoll_.get(),
                     faults_.get(),
                     capture_.get()} {
    if (registration.sponsor) {
      peers_.adopt(std::move(registration.sponsor->connection), registration.sponsor->slot);
    }
  }

  ~Impl() {
    if (!abandoned_) leave();
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status open_address(const LocalAddress& local) {
    for (const auto& address : addresses_) {
      if (!address->group || address->socket.local.address != local.address) continue;
      const bool same = address->socket.local.interface == local.interface;
      if (same || !local.address.is_link_local()) return Ok{};
      return Error{EADDRINUSE, local.address.text() +
                                   " is in use on another interface: one process can use a "
                                   "link-local address on one of them only"};
    }
    auto opened = open_receive_socket(local);
    if (!opened) return opened.error();
    auto address = std::make_unique<Address>(ReceiveSocket{std::move(opened).value(), local, 0});
    if (auto watched = watch(*address); !watched) return watched;
    sockets_.add_address(local);
    address->group.emplace(table_, slot_, local, address->socket.fd.get());
    address->group->renew();
    addresses_.push_back(std::move(address));
    return Ok{};
  }

  /// All sockets ask for the same.
  [[nodiscard]] std::uint32_t receive_buffer() const {
    return addresses_.empty() ? 0 : wire::receive_buffer(addresses_.front()->socket.fd);
  }

  Result<BoundPort> bind_port(const PortBinding& wanted) {
    const auto generation = table_.generation();
    auto bound = ports_.bind(wanted);
    // It may have found out that a process is dead.
    if (table_.generation() != generation) renew_groups();
    return bound;
  }

  Status listen_port(PortId id) {
    auto listens = ports_.listen(id);
    if (listens) attach_groups();
    return listens;
  }

  void release_port(PortId id) {
    if (ports_.release(id)) attach_groups();
  }

  Status join(const LocalAddress& group) {
    if (Address* joined = find_group(group)) {
      ++joined->members;
      return Ok{};
    }
    auto opened = open_multicast_socket(group);
    if (!opened) return opened.error();
    auto address = std::make_unique<Address>(ReceiveSocket{std::move(opened).value(), group, 0});
    if (auto watched = watch(*address); !watched) return watched;
    address->members = 1;
    addresses_.push_back(std::move(address));
    return Ok{};
  }

  void leave(const LocalAddress& group) {
    Address* joined = find_group(group);
    if (joined == nullptr || --joined->members > 0) return;
    std::erase_if(addresses_, [&](const auto& a) { return a.get() == joined; });
  }

  std::size_t receive(DatagramSink& sink) {
    if (transmitter_.waiting()) transmitter_.flush();
    if (addresses_.size() == 1) return receive_from(*addresses_.front(), sink);

    std::array<epoll_event, 64> ready;
    const int count =
        kernel::epoll_wait(data_epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    std::size_t frames = 0;
    for (int i = 0; i < count; ++i) {
      auto* address = static_cast<Address*>(ready[static_cast<std::size_t>(i)].data.ptr);
      if (address != nullptr) frames += receive_from(*address, sink);  // null: room to send
    }
    return frames;
  }

  void serve_control(DatagramSink& sink) {
    ControlEvents events{*this, sink};
    peers_.serve(events);
    sockets_.for_each_management([&](const SendSocket& socket) {
      while (const auto said = undelivered_.next(socket)) sink.undelivered(*said);
    });
  }

  /// control_fd() wakes when the socket has something to tell, and peers_ ignores what isn't its.
  Result<std::uint16_t> management_port(const IpAddress& address) {
    auto port = sockets_.management_port(address);
    SendSocket* const socket = port ? sockets_.find(address, *port) : nullptr;
    if (socket == nullptr || !socket->tells || socket->watched) return port;
    epoll_event event{};  // no events: errors are always told
    event.data.fd = socket->fd.get();
    socket->watched =
        kernel::epoll_ctl(control_epoll_.get(), EPOLL_CTL_ADD, socket->fd.get(), &event) == 0;
    return port;
  }

  void flush() {
    transmitter_.flush();
    if (capture_) capture_->write();
  }

  void abandon() {
    abandoned_ = true;
    capture_.reset();
    close_all();
  }

 private:
  struct Address {
    explicit Address(ReceiveSocket s) : socket{std::move(s)} {}
    ReceiveSocket socket;
    std::optional<ReuseportGroup> group;  // not of a multicast address: everybody gets a copy
    unsigned members = 0;                 // of a multicast address
  };

  Status watch(Address& address) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &address;
    if (kernel::epoll_ctl(data_epoll_.get(), EPOLL_CTL_ADD, address.socket.fd.get(), &event) == 0) {
      return Ok{};
    }
    return system_error(errno, "epoll_ctl for UDP " + address.socket.local.address.text());
  }

  Address* find_group(const LocalAddress& group) {
    for (const auto& address : addresses_) {
      const LocalAddress& local = address->socket.local;
      if (address->members > 0 && local.address == group.address &&
          local.interface == group.interface) {
        return address.get();
      }
    }
    return nullptr;
  }

  /// Trains from the network: splits them and sorts the frames.
  class Arrivals final : public TrainSink {
   public:
    Arrivals(Impl& wire, Address& address, DatagramSink& sink)
        : wire_{wire}, address_{address}, sink_{sink} {}

    void train(const Train& t) override {
      if (wire_.capture_) wire_.capture_->received(t, address_.socket.local.interface);
      std::size_t size = 0;
      for (std::size_t at = 0; at < t.whole.bytes.size(); at += size) {
        size = std::min(t.segment, t.whole.bytes.size() - at);
        ++frames;
        const auto owner = wire_.sort(t.part(at, size).whole, address_, sink_);
        if (owner != strays_owner_ || owner == 0) pass_on_strays(t);
        if (owner != 0) add_stray(owner, at, size);
      }
      sink_.no_more();
      pass_on_strays(t);
    }

    std::size_t frames = 0;

   private:
    void add_stray(std::uint32_t owner, std::size_t at, std::size_t size) {
      if (strays_owner_ == 0) first_ = at;
      strays_owner_ = owner;
      end_ = at + size;
      ++strays_;
    }

    void pass_on_strays(const Train& t) {
      if (strays_owner_ == 0) return;
      wire_.pass_on(strays_owner_, t.part(first_, end_ - first_), strays_, address_);
      strays_owner_ = 0;
      strays_ = 0;
    }

    Impl& wire_;
    Address& address_;
    DatagramSink& sink_;
    // Neighbouring frames of one other process leave as one message.
    std::uint32_t strays_owner_ = 0;  // 0: none
    std::size_t strays_ = 0;
    std::size_t first_ = 0;
    std::size_t end_ = 0;
  };

  class ControlEvents final : public PeerEvents {
   public:
    ControlEvents(Impl& wire, DatagramSink& sink) : wire_{wire}, sink_{sink} {}

    void train(const Train& t) override {
      if (wire_.capture_) wire_.capture_->received(t, wire_.interface_of(t.whole.destination));
      std::size_t size = 0;
      for (std::size_t at = 0; at < t.whole.bytes.size(); at += size) {
        size = std::min(t.segment, t.whole.bytes.size() - at);
        wire_.take_handed_over(t.part(at, size).whole, sink_);
      }
      sink_.no_more();
    }
    void peer_died(std::uint32_t slot) override { wire_.bury(slot); }
    std::string account() override { return sink_.account(); }

   private:
    Impl& wire_;
    DatagramSink& sink_;
  };

  /// 0: not an address of ours.
  [[nodiscard]] unsigned interface_of(const IpAddress& address) const {
    for (const auto& a : addresses_) {
      if (a->socket.local.address == address) return a->socket.local.interface;
    }
    return 0;
  }

  std::size_t receive_from(Address& address, DatagramSink& sink) {
    Arrivals arrivals{*this, address, sink};
    receiver_.receive(address.socket, arrivals);
    return arrivals.frames;
  }

  /// Delivers a frame of ours and drops a bad one; returns 0. Else the slot that owns it.
  std::uint32_t sort(const packet::Datagram& d, Address& address, DatagramSink& sink) {
    if (const auto probe = Probe::decode(d.bytes)) {
      if (!address.group || !address.group->learned(*probe)) ++counters_.foreign_probes;
      return 0;
    }
    const unsigned interface = address.socket.local.interface;
    const auto qpn = checked(d, interface);
    if (!qpn) return 0;
    if (!address.group && *qpn != kMulticast) {
      // IBA 9.6.1.2: what goes to a group goes to QPN 0xffffff.
      drop(counters_.malformed, interface);
      return 0;
    }
    if (*qpn == packet::kGsiQpn) {
      const auto route = gsi_route(d, table_, slot_);
      if (route.owner != slot_) return route.owner;
      for (const auto other : route.copies) copy_to(other, d);
    } else if (qpn->slot() != slot_ && !is_everyones(*qpn)) {
      if (qpn->slot() != 0) return qpn->slot();
      ++counters_.handover_drops;  // slot 0 is nobody's
      return 0;
    }
    deliver(d, interface, sink);
    return 0;
  }

  void deliver(const packet::Datagram& d, unsigned interface, DatagramSink& sink) {
    ++counters_.frames_received;
    PortTraffic& port = counters_.port(interface);
    ++port.received_packets;
    port.received_bytes += d.bytes.size() + ip_and_udp_size(d.source.is_v4());
    sink.datagram(d);
  }

  [[nodiscard]] bool nobody_listens(const packet::Datagram& d) const {
    const auto service = service_of(d);
    return service && !listener_of(table_, *service, d.destination);
  }

  [[nodiscard]] bool is_bound(const packet::Datagram& d) const {
    const auto service = service_of(d);
    return service && wire::is_bound(table_, *service, d.destination);
  }

  [[nodiscard]] bool owner_is_dead(const packet::Datagram& d) const {
    const auto target = packet::cm_target(d.bytes);
    const auto* to = target ? std::get_if<packet::ToSlot>(&*target) : nullptr;
    return to != nullptr && !table_.held(to->slot);
  }

  bool pass_to_listener(const packet::Datagram& d) {
    const auto route = gsi_route(d, table_, slot_);
    if (route.owner == slot_) return false;
    copy_to(route.owner, d);
    return true;
  }

  /// The destination of a frame that is long enough and undamaged.
  std::optional<Qpn> checked(const packet::Datagram& d, unsigned interface) {
    if (d.bytes.size() < kMinFrame) {
      drop(counters_.malformed, interface);
      return std::nullopt;
    }
    if (!icrc_is_right(d)) {
      drop(counters_.icrc_errors, interface);
      return std::nullopt;
    }
    return Qpn{load_be24(&d.bytes[packet::kDestinationQpn])};
  }

  void drop(std::uint64_t& reason, unsigned interface) {
    ++reason;
    ++counters_.port(interface).receive_errors;
  }

  void copy_to(std::uint32_t other, const packet::Datagram& d) {
    const auto result = peers_.hand_over(other, {d, d.bytes.size()});
    ++(result == Peers::HandOver::passed ? counters_.handed_over : counters_.handover_drops);
    if (result == Peers::HandOver::no_owner) bury(other);
  }

  void pass_on(std::uint32_t owner, const Train& frames, std::size_t count, Address& address) {
    switch (peers_.hand_over(owner, frames)) {
      case Peers::HandOver::passed:
        counters_.handed_over += count;
        if (address.group) address.group->misdirected(monotonic_now());
        return;
      case Peers::HandOver::busy:
        counters_.handover_drops += count;
        return;
      case Peers::HandOver::no_owner:
        counters_.handover_drops += count;
        bury(owner);
        return;
    }
  }

  void take_handed_over(const packet::Datagram& d, DatagramSink& sink) {
    const unsigned interface = interface_of(d.destination);
    const auto qpn = checked(d, interface);
    if (!qpn) return;
    const auto owner = *qpn == packet::kGsiQpn ? gsi_route(d, table_, slot_).owner : qpn->slot();
    if (owner != slot_) {
      ++counters_.handover_drops;  // not passed on twice: two stale views must not play ball
      return;
    }
    ++counters_.handover_received;
    deliver(d, interface, sink);
  }

  /// Its socket left the kernel's arrays, so others moved.
  void bury(std::uint32_t slot) {
    if (table_.release(slot, monotonic_now())) renew_groups();
  }

  void renew_groups() {
    for (const auto& address : addresses_) {
      if (address->group) address->group->renew();
    }
  }

  void attach_groups() {
    for (const auto& address : addresses_) {
      if (address->group) address->group->attach();
    }
  }

  void leave() {
    for (const auto& address : addresses_) {
      address->socket.fd.reset();
      if (address->group) address->group->left();
    }
    table_.release(slot_, monotonic_now());
    close_all();
  }

  void close_all() {
    addresses_.clear();
    sockets_.close();
    peers_.close();
    table_.close();
    data_epoll_.reset();
    control_epoll_.reset();
  }

  friend class UdpWire;

  WireCounters counters_;
  std::uint32_t slot_;
  std::unique_ptr<Faults> faults_;
  std::unique_ptr<Capture> capture_;
  bool abandoned_ = false;
  Fd data_epoll_;
  Fd control_epoll_;
  SharedTable table_;
  PortTable ports_{table_, slot_};
  Peers peers_;
  SendSockets sockets_;
  Receiver receiver_;
  Transmitter transmitter_;
  UndeliveredReader undelivered_;
  std::vector<std::unique_ptr<Address>> addresses_;
};

Result<std::unique_ptr<UdpWire>> UdpWire::create(std::span<std::uint8_t> buffers,
                                                 const Middleware& middleware) {
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
  std::unique_ptr<Capture> capture;
  if (!middleware.capture.empty()) {
    auto opened = Capture::open(middleware.capture);
    if (!opened) return opened.error();
    capture = std::move(opened).value();
  }
  auto faults = middleware.faults ? std::make_unique<Faults>(*middleware.faults) : nullptr;
  auto registration = join_registry();
  if (!registration) return registration.error();
  return std::unique_ptr<UdpWire>{new UdpWire{
      std::make_unique<Impl>(buffers, std::move(registration).value(), std::move(data),
                             std::move(control), std::move(faults), std::move(capture))}};
}

UdpWire::UdpWire(std::unique_ptr<Impl> impl) : impl_{std::move(impl)} {}
UdpWire::~UdpWire() = default;

std::uint32_t UdpWire::slot() const { return impl_->slot_; }

Status UdpWire::open_address(const IpAddress& address, unsigned interface) {
  return impl_->open_address({address, interface});
}

std::uint32_t UdpWire::receive_buffer() const { return impl_->receive_buffer(); }

Status UdpWire::join(const IpAddress& group, unsigned interface) {
  return impl_->join({group, interface});
}

void UdpWire::leave(const IpAddress& group, unsigned interface) {
  impl_->leave({group, interface});
}

Result<std::uint16_t> UdpWire::source_port(const IpAddress& address, Qpn qpn) {
  return impl_->sockets_.port_for(address, qpn);
}

Result<std::uint16_t> UdpWire::management_port(const IpAddress& address) {
  return impl_->management_port(address);
}

Result<BoundPort> UdpWire::bind_port(const PortBinding& wanted) { return impl_->bind_port(wanted); }
Status UdpWire::listen_port(PortId id) { return impl_->listen_port(id); }
void UdpWire::release_port(PortId id) { impl_->release_port(id); }

bool UdpWire::nobody_listens(const packet::Datagram& d) const { return impl_->nobody_listens(d); }
bool UdpWire::is_bound(const packet::Datagram& d) const { return impl_->is_bound(d); }
bool UdpWire::owner_is_dead(const packet::Datagram& d) const { return impl_->owner_is_dead(d); }
bool UdpWire::pass_to_listener(const packet::Datagram& d) { return impl_->pass_to_listener(d); }

std::span<std::uint8_t> UdpWire::reserve(const packet::Flow& flow, std::size_t size) {
  return impl_->transmitter_.reserve(flow, size);
}

packet::FrameRooms UdpWire::reserve_many(const packet::Flow& flow, std::size_t size,
                                         std::size_t count) {
  return impl_->transmitter_.reserve_many(flow, size, count);
}

void UdpWire::commit() { impl_->transmitter_.commit(); }
void UdpWire::flush() { impl_->flush(); }
Instant UdpWire::next_deadline() const { return impl_->transmitter_.next_deadline(); }
Instant UdpWire::empty_at() const {
  return impl_->faults_ ? impl_->faults_->empty_at() : Instant{};
}
bool UdpWire::send_waiting() const { return impl_->transmitter_.waiting(); }

const std::string& UdpWire::last_send_error() const { return impl_->transmitter_.last_error(); }

std::size_t UdpWire::receive(DatagramSink& sink) { return impl_->receive(sink); }
void UdpWire::serve_control(DatagramSink& sink) { impl_->serve_control(sink); }

int UdpWire::data_fd() const { return impl_->data_epoll_.get(); }
int UdpWire::control_fd() const { return impl_->control_epoll_.get(); }

void UdpWire::abandon() { impl_->abandon(); }
const WireCounters& UdpWire::counters() const { return impl_->counters_; }
const Faults* UdpWire::faults() const { return impl_->faults_.get(); }
const Capture* UdpWire::capture() const { return impl_->capture_.get(); }

}  // namespace verbena::wire
