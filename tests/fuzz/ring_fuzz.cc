// Fuzz target: what another process of this host can do to the wire of rings, and through it to the
// engine. It writes what it likes into its segment, at any time, and says what it likes in offers.
// Whatever it does: no access leaves the ring, each call ends, and the engine keeps its promises.
//
// Run: cmake --preset fuzz && cmake --build --preset fuzz --target ring_fuzz
//      build/fuzz/fuzz/ring_fuzz -max_total_time=60 build/fuzz/fuzz/ring_seeds
//
// An input is a row of steps: action, choice, three bytes of place, two of size, bytes.

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "packet/packet.h"
#include "registry/registry.h"
#include "tests/fuzz/device.h"
#include "tests/fuzz/target.h"
#include "wire/shm/offer.h"
#include "wire/shm/shm_wire.h"

namespace verbena::fuzz {
namespace {

using packet::OpcodeInfo;
using wire::shm::Message;
using wire::shm::RecordHeader;
using wire::shm::Segment;

/// What the first byte of a step says, modulo kActions.
enum Action : std::uint8_t {
  frame,    // a good record with this frame, behind the one before
  record,   // a record with these bytes as its header and contents
  raw,      // bytes at any place of the ring
  page,     // the words that the other process reads
  meddle,   // at the next frames, before the engine sees them: bytes of the ring change
  receive,  // the victim looks
  storm,    // … while another thread changes the ring
  offer,    // a message
  send,     // the victim sends
  sleep,    // the victim sleeps, or is woken
  kActions,
};

struct Step {
  static constexpr std::size_t kSize = 7;
  std::uint8_t action = frame;
  std::uint8_t choice = 0;
  std::uint32_t place = 0;
  Bytes bytes{};
};

std::vector<Step> split(std::span<const std::uint8_t> input) {
  std::vector<Step> out;
  while (input.size() >= Step::kSize) {
    const std::size_t size =
        std::min<std::size_t>(load_be16(&input[5]), input.size() - Step::kSize);
    const auto bytes = input.subspan(Step::kSize, size);
    out.push_back({static_cast<std::uint8_t>(input[0] % kActions),
                   input[1],
                   load_be24(&input[2]),
                   {bytes.begin(), bytes.end()}});
    input = input.subspan(Step::kSize + size);
  }
  return out;
}

Bytes join(const std::vector<Step>& steps) {
  Bytes out;
  for (const Step& s : steps) {
    std::array<std::uint8_t, Step::kSize> head{s.action, s.choice};
    store_be24(&head[2], s.place & 0xff'ffff);
    store_be16(&head[5], static_cast<std::uint16_t>(s.bytes.size()));
    out.insert(out.end(), head.begin(), head.end());
    out.insert(out.end(), s.bytes.begin(), s.bytes.end());
  }
  return out;
}

void require(bool promise, const char* what) {
  if (promise) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

/// One who is in the registry. Messages to him are taken and forgotten.
class Member final : registry::Visitors {
 public:
  Member() : memory_(registry::Registry::kMessageBytes) {
    auto joined = registry::Registry::join(memory_);
    require(joined.ok(), "a process can join the registry");
    registry_ = std::move(joined).value();
  }
  [[nodiscard]] registry::Registry& registry() { return *registry_; }
  void listen() { registry_->serve(*this); }

 private:
  void message(const registry::PeerMessage&) override {}
  registry::Account account(std::uint32_t) override { return {}; }

  std::vector<std::uint8_t> memory_;
  std::unique_ptr<registry::Registry> registry_;
};

/// They stay: joining takes longer than many inputs.
Member& victims() {
  static Member member;
  return member;
}
Member& attackers() {
  static Member member;
  return member;
}

/// The process under attack and the one that attacks it.
class Duel final : wire::DatagramSink {
 public:
  Duel() : device_{victims().registry().slot(), attackers().registry().slot()} {
    auto made = wire::ShmWire::create(victims().registry());
    require(made.ok(), "a wire can be made");
    wire_ = std::move(made).value();
    wire_->open_address({Device::address(), 0});
    say({});  // a good offer
  }

  void take(const Step& s) {
    switch (s.action) {
      case frame:
        return put_frame(s);
      case record:
        return put_record(s);
      case raw:
        return write(s.place % Segment::kRingBytes, s.bytes);
      case page:
        return write_page(s);
      case meddle:
        meddle_with_.push_back(s);
        return;
      case storm:
        return receive_in_a_storm(s);
      case offer:
        return say(s);
      case send:
        return send_frames(s);
      case sleep:
        if (s.choice % 2 != 0) return wire_->woken();
        (void)wire_->may_sleep();
        return;
      default:
        return look();
    }
  }

  void finish() {
    for (int i = 0; i < 4; ++i) look();
    attackers().listen();
    device_.flush_all();
  }

 private:
  static constexpr std::size_t kLeast = packet::Bth::kSize + packet::kIcrcSize;

  // wire::DatagramSink: the victim.
  void datagram(const packet::Datagram& d) override {
    require(d.bytes.size() >= kLeast && d.bytes.size() < Segment::kRingBytes, "frames have sizes");
    require(d.way == packet::Way::host, "the way is the host's");
    require(d.destination_qpn.slot() == victims().registry().slot(), "frames are for this process");
    if (!meddle_with_.empty()) {
      const Step s = std::exchange(meddle_with_.back(), {});
      meddle_with_.pop_back();
      if (d.changeable) meddle_in(d, s);
    }
    device_.receive(d);
  }
  void management(const packet::Datagram& d) override {
    require(!d.changeable && d.bytes.size() >= kLeast, "messages are copies");
  }
  void no_more() override { device_.settle(); }
  void rings_lost(std::uint32_t slot) override { device_.rings_lost(slot); }

  void look() {
    require(wire_->receive(*this) <= 64 * 2, "each process has its turn");
    device_.pass(std::chrono::microseconds{10});
    device_.settle();
    wire_->flush();
  }

  // The attacker.
  [[nodiscard]] std::span<std::uint8_t> ring() {
    return segment_ ? segment_.ring() : std::span<std::uint8_t>{};
  }
  void write(std::size_t at, std::span<const std::uint8_t> bytes) {
    if (ring().empty()) return;
    const std::size_t size = std::min(bytes.size(), ring().size() - at);
    for (std::size_t i = 0; i < size; ++i) {
      std::atomic_ref{ring()[at + i]}.store(bytes[i], std::memory_order_relaxed);
    }
  }
  void put(RecordHeader header, std::span<const std::uint8_t> contents) {
    if (place_ + header.size + 64 > ring().size()) return;
    write(place_ + sizeof header, contents);
    std::array<std::uint8_t, sizeof header> bytes;
    std::memcpy(bytes.data(), &header, sizeof header);
    write(place_, bytes);
    place_ += header.size;
  }
  void put_frame(const Step& s) {
    Bytes f = s.bytes;
    if (f.size() < kLeast) f.resize(kLeast);
    patch(f, s);
    Bytes contents;
    const bool with_addresses = place_ == 0 || s.place % 4 == 0;
    if (with_addresses) {
      for (const auto& a : {Device::peer().bytes(), Device::address().bytes()}) {
        contents.insert(contents.end(), a.begin(), a.end());
      }
    }
    contents.insert(contents.end(), f.begin(), f.end());
    put({.size = static_cast<std::uint32_t>(wire::shm::record_size(0, contents.size())),
         .frame = static_cast<std::uint32_t>(f.size()),
         .source_port = 0xc000,
         .hop_limit = s.choice,
         .flags = with_addresses ? RecordHeader::kAddresses : std::uint8_t{0}},
        contents);
  }
  void put_record(const Step& s) {
    RecordHeader header;
    const std::size_t size = std::min(sizeof header, s.bytes.size());
    std::copy_n(s.bytes.begin(), size, reinterpret_cast<std::uint8_t*>(&header));
    if (s.choice % 4 != 0) header.size = header.size % 64 * 64;
    if (s.choice % 4 == 1) header.flags = RecordHeader::kWrap;
    put(header, std::span{s.bytes}.subspan(size));
    if ((header.flags & RecordHeader::kWrap) != 0) place_ = 0;
  }
  /// To a queue pair that exists, with the PSN that it expects.
  void patch(Bytes& f, const Step& s) {
    const engine::QueuePair& qp = device_.qp(s.choice);
    if (s.choice % 16 == 15) return store_be24(&f[5], 1);  // QP 1
    const unsigned op = qp.type == engine::QpType::ud ? 4 | (f[0] & 1u) : f[0] & 0x1fu;
    f[0] = static_cast<std::uint8_t>((static_cast<unsigned>(qp.service()) << 5) | op);
    f[1] &= 0xf0;  // transport version 0
    store_be16(&f[2], packet::kDefaultPkey);
    store_be24(&f[5], qp.qpn.value());
    const bool response = packet::info_of(static_cast<packet::Opcode>(f[0])).is_response();
    store_be24(&f[9], (response ? qp.completer.unacked : qp.responder.expected).value());
  }
  void write_page(const Step& s) {
    if (!segment_ || s.bytes.size() < 8) return;
    switch (s.choice % 4) {
      case 0:
        return segment_.page().sleep.store(s.place);
      case 1:
        return segment_.page().starved.store(s.place);
      case 2:  // what an honest reader may say
        return segment_.page().consumed.store(s.place * std::uint64_t{64});
      default:
        return segment_.page().consumed.store(load_be64(s.bytes.data()));
    }
  }
  /// In the frame that the victim holds: through the attacker's own mapping.
  void meddle_in(const packet::Datagram& d, const Step& s) {
    auto* const bytes = const_cast<std::uint8_t*>(find_in_ring(d.bytes));
    if (bytes == nullptr) return;
    for (std::size_t i = 0; i < s.bytes.size(); ++i)
      bytes[(s.place + i) % d.bytes.size()] = s.bytes[i];
  }
  [[nodiscard]] const std::uint8_t* find_in_ring(std::span<const std::uint8_t> seen) {
    if (ring().size() < seen.size()) return nullptr;
    // The victim's mapping lies elsewhere; both begin at the same offset of a page.
    for (std::size_t at = reinterpret_cast<std::uintptr_t>(seen.data()) % 4096;
         at + seen.size() <= place_ + 4096 && at + seen.size() <= ring().size(); at += 4096) {
      if (std::memcmp(ring().data() + at, seen.data(), seen.size()) == 0) return ring().data() + at;
    }
    return nullptr;
  }
  void receive_in_a_storm(const Step& s) {
    if (s.bytes.empty() || ring().empty()) return look();
    std::atomic<bool> over{false};
    std::thread other{[&] {
      for (std::size_t i = s.place; !over.load(std::memory_order_relaxed); ++i) {
        std::atomic_ref{ring()[i * 13 % std::max<std::size_t>(place_, 64)]}.fetch_xor(
            s.bytes[i % s.bytes.size()], std::memory_order_relaxed);
      }
    }};
    for (int i = 0; i < 3; ++i) look();
    over = true;
    other.join();
  }
  void say(const Step& s) {
    Message message{.kind = Message::Kind::offer, .slot = attackers().registry().slot(), .link = 7};
    std::array<Fd, 4> descriptors;
    if (s.choice % 2 == 0) {
      auto made = Segment::create(wire::shm::Link::kRingBytes);
      require(made.ok(), "there is memory for a ring");
      segment_ = std::move(made->segment);
      place_ = 0;
      descriptors[Message::kSegment] = std::move(made->descriptor);
    } else if (s.choice % 4 == 1) {
      descriptors[Message::kSegment] = some_descriptor(s.choice);
    }
    if (s.choice % 8 < 6)
      descriptors[Message::kBell] = Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::span<const std::uint8_t> bytes = message.bytes();
    if (s.choice % 16 == 15) message.kind = Message::Kind::refusal;
    message.answers = s.choice % 16 == 14 ? s.place : 0;
    if (s.choice % 32 >= 28) bytes = s.bytes;
    const registry::PeerMessage from{message.slot, 1, bytes,
                                     std::span{descriptors}.first(s.choice % 64 < 56 ? 4 : 1)};
    wire_->message(from, *this);
    attackers().listen();
  }
  static Fd some_descriptor(std::uint8_t choice) {
    if (choice % 8 == 1) return Fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    Fd memfd{::memfd_create("verbena-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    (void)!::ftruncate(memfd.get(), choice % 16 == 5 ? Segment::kBytes : 4096);
    return memfd;
  }
  void send_frames(const Step& s) {
    const Qpn to{(attackers().registry().slot() << Qpn::kIndexBits) | 0x11};
    const packet::Flow flow{
        .source = Device::address(), .destination = Device::peer(), .way = packet::Way::host};
    const std::size_t size = packet::Bth::kSize + s.place % 60'000;
    for (unsigned i = 0; i <= s.choice % 8u; ++i) {
      const auto rooms = wire_->reserve_many(flow, to, size, 1 + s.choice % 5u);
      for (std::size_t n = 0; n < rooms.count; ++n) {
        std::ranges::fill(rooms[n], s.choice);
        if (s.choice % 3 != 0) wire_->commit();
      }
    }
    wire_->flush();
  }

  Device device_;
  std::unique_ptr<wire::ShmWire> wire_;
  Segment segment_;
  std::size_t place_ = 0;  // of the next good record
  std::vector<Step> meddle_with_;
};

// ---- seeds

Bytes replayed(const Recording& recording, std::uint8_t qp) {
  constexpr std::size_t kLongest = 12'000;
  std::vector<Step> steps;
  std::size_t bytes = 0;
  for (const test::Captured& c : recording) {
    if (c.payload.size() < packet::Bth::kSize + packet::kIcrcSize) continue;
    if ((bytes += c.payload.size()) > kLongest) break;
    steps.push_back({.action = frame, .choice = qp, .bytes = c.payload});
    if (steps.size() % 4 == 0) steps.push_back({.action = receive});
  }
  steps.push_back({.action = receive});
  return join(steps);
}

/// Long frames, so that they are read where they lie.
Bytes long_frames(std::uint8_t last) {
  std::vector<Step> steps;
  for (std::uint8_t i = 0; i < 6; ++i) {
    Bytes f(1024 + packet::Bth::kSize + packet::kIcrcSize, i);
    f[0] = static_cast<std::uint8_t>(packet::Opcode::rc_send_only);
    steps.push_back({.action = frame, .choice = static_cast<std::uint8_t>(i % 3), .bytes = f});
  }
  steps.push_back({.action = meddle, .place = 5, .bytes = Bytes(12, 0xff)});
  steps.push_back({.action = last, .bytes = Bytes{1, 0x80, 0xff}});
  return join(steps);
}

Bytes conversation() {
  return join({{.action = send, .choice = 7, .place = 59'000},
               {.action = page, .choice = 2, .place = 100, .bytes = Bytes(8)},
               {.action = send, .choice = 5, .place = 100},
               {.action = sleep},
               {.action = frame, .choice = 0, .bytes = Bytes(100)},
               {.action = sleep, .choice = 1},
               {.action = record, .choice = 1, .bytes = Bytes(16, 1)},
               {.action = receive},
               {.action = offer},
               {.action = raw, .place = 0, .bytes = Bytes(64, 0x40)},
               {.action = receive},
               {.action = offer, .choice = 29, .bytes = Bytes(16, 1)}});
}

void change_steps(std::vector<Step>& steps, std::mt19937_64& random) {
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto at = static_cast<std::ptrdiff_t>(pick(steps.size()));
  Step& here = steps[static_cast<std::size_t>(at)];
  switch (pick(8)) {
    case 0:
      steps.erase(steps.begin() + at);
      return;
    case 1: {
      const Step copy = here;
      steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(pick(steps.size())), copy);
      return;
    }
    case 2:
      std::swap(here, steps[pick(steps.size())]);
      return;
    case 3:
    case 4:  // somebody does something in between
      steps.insert(steps.begin() + at,
                   Step{.action = static_cast<std::uint8_t>(pick(kActions)),
                        .choice = static_cast<std::uint8_t>(random()),
                        .place = static_cast<std::uint32_t>(pick(8192)),
                        .bytes = Bytes(8 + pick(40), static_cast<std::uint8_t>(random()))});
      return;
    case 5:
      here.choice = static_cast<std::uint8_t>(random());
      return;
    case 6:
      here.place = static_cast<std::uint32_t>(pick(2) == 0 ? pick(256) * 64 : random() & 0xff'ffff);
      return;
    default:
      if (!here.bytes.empty())
        here.bytes[pick(here.bytes.size())] = static_cast<std::uint8_t>(random());
      return;
  }
}

}  // namespace

bool change(Bytes& input, std::mt19937_64& random) {
  std::vector<Step> steps = split(input);
  if (steps.empty()) return false;
  change_steps(steps, random);
  input = join(steps);
  return true;
}

std::vector<Bytes> seeds_of(const std::vector<Recording>& recordings) {
  std::vector<Bytes> out{conversation(), long_frames(receive), long_frames(storm)};
  for (const Recording& r : recordings) {
    if (r.empty() || r[0].payload.empty()) continue;
    const auto service = static_cast<packet::Service>(r[0].payload[0] >> 5);
    out.push_back(replayed(r, service == packet::Service::uc   ? 3
                              : service == packet::Service::ud ? 4
                                                               : 1));
  }
  return out;
}

}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbena::fuzz;
  Duel duel;
  for (const Step& s : split({data, size})) duel.take(s);
  duel.finish();
  return 0;
}
