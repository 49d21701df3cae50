#include "tests/golden/conversation_host.h"

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/support/datagram.h"

namespace verbena::test {
namespace {

using engine::Attr;

/// Any: the engine looks only at the addresses.
constexpr std::uint16_t kSourcePort = 0xc000;
constexpr std::uint32_t kQueueDepth = 64;

void check(const Status& s) {
  if (!s) throw std::runtime_error{s.error().message};
}

template <typename T>
T checked(Result<T> r) {
  if (!r) throw std::runtime_error{r.error().message};
  return *std::move(r);
}

}  // namespace

Host::Host(HostSetup setup)
    : setup_{std::move(setup)},
      send_cq_{std::make_unique<engine::CompletionQueue>(2 * kQueueDepth)},
      receive_cq_{std::make_unique<engine::CompletionQueue>(2 * kQueueDepth)},
      rnic_{setup_.qpn.slot(), *this, *this} {
  // Drawn in this order: the region's key, the queue pair's number.
  numbers_ = {setup_.qpn.value(), setup_.key.value()};
  const engine::PdId pd = checked(rnic_.alloc_pd());
  const auto address = reinterpret_cast<std::uint64_t>(setup_.memory.data());
  const auto region = checked(rnic_.register_memory(pd, {address, setup_.memory.size()},
                                                    setup_.iova, setup_.region_access));
  create_qp(pd);
  if (region.key != setup_.key || qp_->qpn != setup_.qpn) {
    throw std::runtime_error{"the engine drew key " + std::to_string(region.key.value()) +
                             " and queue pair " + std::to_string(qp_->qpn.value()) +
                             ", recorded are " + std::to_string(setup_.key.value()) + " and " +
                             std::to_string(setup_.qpn.value())};
  }
  connect();
  if (setup_.window) bind(pd);
}

void Host::create_qp(engine::PdId pd) {
  qp_ = checked(rnic_.create_qp({.pd = pd,
                                 .send_cq = send_cq_.get(),
                                 .receive_cq = receive_cq_.get(),
                                 .max_send = kQueueDepth,
                                 .max_receive = kQueueDepth,
                                 .max_send_sge = 1,
                                 .max_receive_sge = 1,
                                 .max_inline = 0,
                                 .signal_all = true,
                                 .type = setup_.type}));
}

void Host::connect() {
  // By type: RC, UC, UD.
  constexpr unsigned kBirth = Attr::kPkeyIndex | Attr::kPort | Attr::kAccess;
  constexpr unsigned kPath = Attr::kPath | Attr::kPathMtu | Attr::kDestQpn | Attr::kRqPsn;
  struct Change {
    engine::QpState to;
    std::array<unsigned, 3> mask;
  };
  constexpr std::array kWay{
      Change{engine::QpState::init, {kBirth, kBirth, Attr::kPkeyIndex | Attr::kPort | Attr::kQkey}},
      Change{engine::QpState::rtr, {kPath | Attr::kMaxDestRdAtomic | Attr::kMinRnrTimer, kPath, 0}},
      Change{
          engine::QpState::rts,
          {Attr::kTimeout | Attr::kRetryCount | Attr::kRnrRetry | Attr::kSqPsn | Attr::kMaxRdAtomic,
           Attr::kSqPsn, Attr::kSqPsn}},
  };
  engine::QpAttributes a;
  a.access = setup_.qp_access;
  a.flow = flow();
  a.path_mtu = setup_.mtu;
  a.dest_qpn = setup_.peer_qpn;
  a.rq_psn = setup_.rq_psn;
  a.sq_psn = setup_.sq_psn;
  a.max_dest_rd_atomic = setup_.max_dest_rd_atomic;
  a.max_rd_atomic = setup_.max_rd_atomic;
  a.min_rnr_timer = setup_.min_rnr_timer;
  a.timeout = setup_.timeout;
  a.retry_count = setup_.retry_count;
  a.rnr_retry = setup_.rnr_retry;
  a.qkey = setup_.qkey;
  for (const Change& change : kWay) {
    a.state = change.to;
    check(rnic_.modify_qp(*qp_, a,
                          Attr::kState | change.mask.at(static_cast<std::size_t>(setup_.type))));
  }
}

/// The recorded program bound its window before the recording began.
void Host::bind(engine::PdId pd) {
  numbers_.push_back(setup_.window->value());
  const Key key = checked(rnic_.alloc_window(pd, engine::MemoryRegion::Type::window_2));
  const engine::SendRequest request{.kind = engine::SendKind::bind_window,
                                    .binding = {.window = key,
                                                .new_key = *setup_.window,
                                                .region = setup_.key,
                                                .address = setup_.iova,
                                                .length = setup_.memory.size(),
                                                .access = engine::Access::kRemoteWrite}};
  (void)rnic_.post_send(*qp_, request);
  (void)work(Instant{});
  const auto done = poll_send();
  if (done.size() != 1 || done.front().status != engine::CompletionStatus::success) {
    throw std::runtime_error{"the window can't be bound"};
  }
}

packet::Flow Host::flow() const {
  return {.source = setup_.address, .destination = setup_.peer_address, .source_port = kSourcePort};
}

engine::Sge Host::sge(std::size_t offset, std::uint32_t length) const {
  return {.address = setup_.iova + offset, .length = length, .lkey = setup_.key};
}

void Host::receive(const Captured& packet, Instant now) {
  rnic_.receive(test::delivered({.source = packet.source,
                                 .destination = packet.destination,
                                 .source_port = packet.source_port,
                                 .traffic_class = packet.traffic_class,
                                 .hop_limit = packet.hop_limit,
                                 .bytes = packet.payload}),
                now);
}

void Host::receive(std::span<const std::uint8_t> frame, Instant now) {
  Captured packet;
  packet.source = setup_.peer_address;
  packet.destination = setup_.address;
  packet.payload.assign(frame.begin(), frame.end());
  packet.payload.resize(frame.size() + packet::kIcrcSize);  // the wire has checked it
  receive(packet, now);
}

std::vector<Host::Bytes> Host::work(Instant now, std::size_t limit) {
  room_ = limit;
  refused_ = false;
  do {
    if (!rnic_.work(*this, now)) break;
  } while (rnic_.has_work());
  rnic_.notifications().clear();
  rnic_.events().clear();
  return std::exchange(sent_, {});
}

bool Host::wants_to_send(Instant now) {
  (void)work(now, 0);
  return refused_;
}

std::vector<engine::Completion> Host::poll(engine::CompletionQueue& cq) {
  std::vector<engine::Completion> out;
  std::array<engine::Completion, 16> some;
  while (const std::size_t n = cq.poll(some)) {
    out.insert(out.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return out;
}

void Host::check_inside(const engine::Segment& s) const {
  const auto begin = reinterpret_cast<std::uint64_t>(setup_.memory.data());
  const std::uint64_t offset = s.address - begin;
  if (offset > setup_.memory.size() || s.length > setup_.memory.size() - offset) {
    throw std::runtime_error{"the engine reaches outside the region: " + std::to_string(s.length) +
                             " bytes at offset " + std::to_string(offset)};
  }
}

bool Host::gather(std::span<const engine::Segment> from, std::span<std::uint8_t> into) {
  for (const auto& s : from) {
    check_inside(s);
    std::memcpy(into.data(), reinterpret_cast<const void*>(s.address), s.length);
    into = into.subspan(s.length);
  }
  return true;
}

bool Host::scatter(std::span<const std::uint8_t> from, std::span<const engine::Segment> into) {
  for (const auto& s : into) {
    check_inside(s);
    std::memcpy(reinterpret_cast<void*>(s.address), from.data(), s.length);
    from = from.subspan(s.length);
  }
  return true;
}

std::uint64_t* Host::word_at(std::uint64_t address) const {
  check_inside({address, sizeof(std::uint64_t)});
  return reinterpret_cast<std::uint64_t*>(address);
}

std::optional<std::uint64_t> Host::compare_swap(std::uint64_t address, std::uint64_t compare,
                                                std::uint64_t swap) {
  std::uint64_t& word = *word_at(address);
  return std::exchange(word, word == compare ? swap : word);
}

std::optional<std::uint64_t> Host::fetch_add(std::uint64_t address, std::uint64_t add) {
  std::uint64_t& word = *word_at(address);
  return std::exchange(word, word + add);
}

bool Host::store(std::uint64_t address, std::uint64_t value) {
  *word_at(address) = value;
  return true;
}

std::uint32_t Host::next() {
  if (numbers_.empty()) throw std::runtime_error{"the engine drew more numbers than expected"};
  const std::uint32_t n = numbers_.back();
  numbers_.pop_back();
  return n;
}

std::span<std::uint8_t> Host::reserve(const packet::Flow& flow, Qpn, std::size_t size) {
  if (flow.source != setup_.address || flow.destination != setup_.peer_address) {
    throw std::runtime_error{"a frame goes to " + flow.destination.text()};
  }
  if (room_ == 0) {
    refused_ = true;
    return {};
  }
  frame_.assign(size, 0xee);  // whatever the engine doesn't write shows
  return frame_;
}

void Host::commit() {
  --room_;
  sent_.push_back(frame_);
}

}  // namespace verbena::test
