#include "wire/udp/transmitter.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "packet/bth.h"
#include "packet/icrc.h"
#include "packet/packet.h"
#include "system/kernel_calls.h"
#include "system/monotonic_now.h"
#include "wire/udp/udp_socket.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

namespace verbena::wire {
namespace {

constexpr std::size_t kMaxRun = 32;  // batches of one sendmmsg

struct alignas(cmsghdr) Control {
  std::array<std::uint8_t, CMSG_SPACE(sizeof(std::uint16_t)) + 2 * CMSG_SPACE(sizeof(int))> bytes;
};

/// Appends control messages to a msghdr whose buffer is large enough for all of them.
class ControlWriter {
 public:
  ControlWriter(msghdr& message, Control& control) : message_{message} {
    std::memset(&control, 0, sizeof control);
    message_.msg_control = control.bytes.data();
    message_.msg_controllen = 0;
  }

  template <typename T>
  void add(int level, int type, T value) {
    auto* at = reinterpret_cast<cmsghdr*>(static_cast<std::uint8_t*>(message_.msg_control) +
                                          message_.msg_controllen);
    at->cmsg_level = level;
    at->cmsg_type = type;
    at->cmsg_len = CMSG_LEN(sizeof value);
    std::memcpy(CMSG_DATA(at), &value, sizeof value);
    message_.msg_controllen += CMSG_SPACE(sizeof value);
  }

 private:
  msghdr& message_;
};

void describe(const packet::Flow& flow, std::uint16_t segment, msghdr& message, Control& control) {
  ControlWriter writer{message, control};
  const bool v4 = flow.source.is_v4();
  if (segment != 0) writer.add(IPPROTO_UDP, UDP_SEGMENT, segment);
  if (flow.traffic_class != 0) {
    writer.add(v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, int{flow.traffic_class});
  }
  if (flow.hop_limit != 0) {
    writer.add(v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT, int{flow.hop_limit});
  }
  if (message.msg_controllen == 0) message.msg_control = nullptr;
}

bool is_about_earlier(int code) {
  return code == ECONNREFUSED || code == EHOSTUNREACH || code == ENETUNREACH;
}

}  // namespace

Transmitter::Transmitter(std::span<std::uint8_t> arena, SendSockets& sockets,
                         WireCounters& counters, int epoll_fd)
    : arena_{arena}, sockets_{sockets}, counters_{counters}, epoll_fd_{epoll_fd} {
  batches_.reserve(kMaxBatches);
}

bool Transmitter::has_room(std::size_t bytes) const {
  return head_ + bytes <= arena_.size() && batches_.size() < kMaxBatches;
}

bool Transmitter::make_room(std::size_t bytes) {
  if (!has_room(bytes)) flush();
  arena_full_ = !has_room(bytes);
  return !arena_full_;
}

packet::FrameRooms Transmitter::reserve_many(const packet::Flow& flow, Qpn to, std::size_t size,
                                             std::size_t count) {
  const std::size_t bytes = size + packet::kIcrcSize;
  reserved_ = 0;
  if (size < packet::Bth::kSize || bytes > kMaxBatchBytes || !make_room(bytes)) return {};
  // Flows mostly differ in their ports.
  if (reserved_socket_ == nullptr || reserved_socket_->port != flow.source_port ||
      reserved_flow_ != flow) {
    reserved_socket_ = sockets_.find(flow.source, flow.source_port);
    reserved_flow_ = flow;
    last_has_flow_ = false;
  }
  if (reserved_socket_ != nullptr && reserved_socket_->blocked) return {};
  // Each might begin a batch of its own.
  count = std::min({count, (arena_.size() - head_) / bytes, kMaxBatches - batches_.size()});
  reserved_to_ = to;
  reserved_ = count;
  reserved_bytes_ = bytes;
  return {arena_.subspan(head_, count * bytes - packet::kIcrcSize), size, bytes, count};
}

void Transmitter::commit() {
  if (reserved_ == 0) return;
  --reserved_;
  const std::size_t bytes = reserved_bytes_;
  if (!joins_last(bytes)) {
    if (reserved_socket_ == nullptr) {
      refuse_unknown_port(reserved_flow_);
      return;
    }
    batches_.push_back({.flow = reserved_flow_,
                        .socket = reserved_socket_,
                        .to = reserved_to_,
                        .offset = head_,
                        .segment = bytes});
    batches_.back().flow.source_port = reserved_socket_->port;
    last_has_flow_ = true;
  }
  Batch& batch = batches_.back();
  seal(batch, head_, bytes, batch.frames);
  batch.bytes += bytes;
  ++batch.frames;
  head_ += bytes;
}

bool Transmitter::send_sealed(const packet::Flow& flow, Qpn to,
                              std::span<const std::uint8_t> frame) {
  const std::size_t bytes = frame.size();
  if (!make_room(bytes)) return false;
  SendSocket* const socket = sockets_.find(flow.source, flow.source_port);
  if (socket == nullptr) {
    refuse_unknown_port(flow);
    return true;
  }
  if (socket->blocked) return false;
  std::ranges::copy(frame, &arena_[head_]);
  batches_.push_back({.flow = flow,
                      .socket = socket,
                      .to = to,
                      .offset = head_,
                      .bytes = bytes,
                      .segment = bytes,
                      .frames = 1});
  last_has_flow_ = false;  // nothing joins it
  head_ += bytes;
  return true;
}

Departure Transmitter::departure_of(const packet::Flow& flow) {
  const SendSocket* const socket = sockets_.find(flow.source, flow.source_port);
  return socket != nullptr ? Departure{socket->port, socket->local.interface} : Departure{};
}

void Transmitter::refuse_unknown_port(const packet::Flow& flow) {
  ++counters_.send_errors;
  last_error_ = "send from " + text_of(flow.source, flow.source_port) +
                ": no such source port; take it from source_port()";
}

bool Transmitter::joins_last(std::size_t bytes) const {
  if (!last_has_flow_) return false;
  const Batch& last = batches_.back();
  const bool last_frame_is_full = last.bytes == last.frames * last.segment;
  return last.offset + last.bytes == head_ && last.socket->segments && last.to == reserved_to_ &&
         last_frame_is_full && bytes <= last.segment && last.frames < kMaxSegments &&
         last.bytes + bytes <= kMaxBatchBytes;
}

/// The kernel numbers the datagrams of a batch 0, 1, 2, … in the IPv4 identification, and
/// the ICRC covers it.
void Transmitter::seal(const Batch& batch, std::size_t offset, std::size_t bytes,
                       std::size_t index) {
  const std::size_t size = bytes - packet::kIcrcSize;
  const packet::IcrcHeaders headers{.source = batch.flow.source,
                                    .destination = batch.flow.destination,
                                    .source_port = batch.flow.source_port,
                                    .destination_port = packet::kRocePort,
                                    .identification = static_cast<std::uint16_t>(index)};
  packet::store_icrc(&arena_[offset + size], packet::icrc(headers, arena_.subspan(offset, size)));
}

void Transmitter::flush() {
  if (batches_.empty() && full_.empty() && tap_ == nullptr) return;  // of most rounds with rings
  for (const Batch& batch : batches_) batch.socket->blocked = false;
  for (std::size_t i = 0; i < batches_.size();) {
    SendSocket* socket = batches_[i].socket;
    if (batches_[i].done) {  // a flush before ended early
      ++i;
      continue;
    }
    std::size_t count = 1;
    while (count < kMaxRun && i + count < batches_.size() && batches_[i + count].socket == socket) {
      ++count;
    }
    if (!socket->blocked) send_run(i, count);
    // A run that stopped early (refused or split) goes on where it stopped.
    while (i < batches_.size() && (batches_[i].done || batches_[i].socket->blocked)) ++i;
  }
  forget_sent();
  watch_full_sockets();
  if (tap_ != nullptr) tap_->flushed();
}

/// Sends as many of these batches, all of one socket, as the kernel takes; at least one of
/// them is done, split or blocked afterwards.
void Transmitter::send_run(std::size_t first, std::size_t count) {
  std::array<mmsghdr, kMaxRun> messages;
  std::array<iovec, kMaxRun> pieces;
  std::array<SocketAddress, kMaxRun> destinations;
  std::array<Control, kMaxRun> controls;
  for (std::size_t i = 0; i < count; ++i) {
    const Batch& batch = batches_[first + i];
    destinations[i] = {batch.flow.destination, packet::kRocePort, batch.socket->local.interface};
    pieces[i] = {&arena_[batch.offset], batch.bytes};
    messages[i] = {};
    msghdr& message = messages[i].msg_hdr;
    message.msg_name = destinations[i].get();
    message.msg_namelen = destinations[i].size();
    message.msg_iov = &pieces[i];
    message.msg_iovlen = 1;
    const auto segment = batch.frames > 1 ? static_cast<std::uint16_t>(batch.segment) : 0;
    describe(batch.flow, static_cast<std::uint16_t>(segment), message, controls[i]);
  }

  const SendSocket& socket = *batches_[first].socket;
  int sent = 0;
  // A socket with an error queue tells of an earlier frame's fate once, by failing this call.
  bool told = !socket.tells;
  if (tap_ != nullptr) tap_->sending();
  do {
    sent = kernel::sendmmsg(socket.fd.get(), messages.data(), static_cast<unsigned>(count),
                            MSG_DONTWAIT);
  } while (sent < 0 && (errno == EINTR || (is_about_earlier(errno) && !std::exchange(told, true))));
  if (sent < 0) {
    refused(first, errno);
    return;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(sent); ++i) {
    Batch& batch = batches_[first + i];
    batch.done = true;
    count_sent(batch);
    if (tap_ != nullptr) {
      tap_->sent(batch.flow, arena_.subspan(batch.offset, batch.bytes), batch.segment,
                 batch.socket->local.interface);
    }
  }
}

void Transmitter::count_sent(const Batch& batch) {
  counters_.frames_sent += batch.frames;
  PortTraffic& port = counters_.port(batch.socket->local.interface);
  port.sent_packets += batch.frames;
  port.sent_bytes += batch.bytes + batch.frames * ip_and_udp_size(batch.flow.source.is_v4());
}

void Transmitter::refused(std::size_t index, int code) {
  Batch& batch = batches_[index];
  switch (code) {
    case EAGAIN:
      batch.socket->blocked = true;
      return;
    case EIO:  // no checksum offload: such interfaces do without segmentation
    case EINVAL:
      if (batch.frames > 1) {
        batch.socket->segments = false;
        split(index);
        return;
      }
      break;
    case EMSGSIZE:
      // Older kernels say EINVAL to a batch whose segments exceed the MTU: that was the
      // path, not the interface.
      batch.socket->segments = true;
      break;
    default:
      break;
  }
  fail(batch, code);
}

/// One datagram per frame. Each then has identification 0, so its ICRC changes.
void Transmitter::split(std::size_t index) {
  const Batch whole = batches_[index];
  std::vector<Batch> singles;
  for (std::size_t at = 0; at < whole.bytes; at += whole.segment) {
    Batch single = whole;
    single.offset = whole.offset + at;
    single.bytes = std::min(whole.segment, whole.bytes - at);
    single.segment = single.bytes;
    single.frames = 1;
    seal(single, single.offset, single.bytes, 0);
    singles.push_back(single);
  }
  const auto position = batches_.begin() + static_cast<std::ptrdiff_t>(index);
  *position = singles.front();
  batches_.insert(position + 1, singles.begin() + 1, singles.end());
}

/// As if the network had lost it: ENOBUFS, EPERM (a firewall), ENETUNREACH, EMSGSIZE, …
void Transmitter::fail(Batch& batch, int code) {
  batch.done = true;
  counters_.send_errors += batch.frames;
  counters_.port(batch.socket->local.interface).send_errors += batch.frames;

  const auto& flow = batch.flow;
  auto text = "send " + text_of(flow.source, flow.source_port) + " to " +
              text_of(flow.destination, packet::kRocePort) + ", qp " +
              std::to_string(batch.to.value()) + ": " + std::strerror(code);
  if (code == EMSGSIZE) {
    const std::size_t headers = flow.source.is_v4() ? 28 : 48;
    text += ": a packet of " + std::to_string(batch.segment + headers) +
            " bytes exceeds the path's MTU of " +
            std::to_string(path_mtu(batch.socket->local, flow.destination)) +
            "; choose a smaller path_mtu for the queue pair or raise the interface's MTU";
  } else if (code == EPERM) {
    text += "; a firewall rule drops it (`nft list ruleset`)";
  }
  last_error_ = std::move(text);
}

void Transmitter::forget_sent() {
  last_has_flow_ = false;
  arena_full_ = false;
  head_ = 0;
  if (std::ranges::all_of(batches_, &Batch::done)) {  // as nearly always
    batches_.clear();
    return;
  }
  std::erase_if(batches_, [](const Batch& batch) { return batch.done; });
  // What waits for full sockets moves together, so that others find the rest of the arena free.
  for (Batch& batch : batches_) {
    std::memmove(&arena_[head_], &arena_[batch.offset], batch.bytes);
    batch.offset = head_;
    head_ += batch.bytes;
  }
}

void Transmitter::watch_full_sockets() {
  if (full_.empty() && batches_.empty()) return;
  std::erase_if(full_, [this](SendSocket* socket) {
    if (socket->blocked) return false;
    kernel::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, socket->fd.get(), nullptr);
    return true;
  });
  for (const Batch& batch : batches_) {
    if (std::find(full_.begin(), full_.end(), batch.socket) != full_.end()) continue;
    epoll_event event{};
    event.events = EPOLLOUT;
    event.data.ptr = nullptr;
    full_.reserve(full_.size() + 1);
    const int added = kernel::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, batch.socket->fd.get(), &event);
    if (added == 0 || errno == EEXIST) full_.push_back(batch.socket);
  }
}

}  // namespace verbena::wire
