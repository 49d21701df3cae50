// Fuzz target: the whole receive path. An input is a list of steps: frames that arrive, time that
// passes, things that the program does. A step's frame may be patched so that it gets past the
// first checks: to a queue pair that exists, with the PSN that is expected and a key that is good.
//
// Run: cmake --preset fuzz && cmake --build --preset fuzz --target receive_fuzz
//      build/fuzz/fuzz/receive_fuzz -max_total_time=60 build/fuzz/fuzz/receive_seeds

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "packet/packet.h"
#include "tests/fuzz/device.h"
#include "tests/fuzz/target.h"
#include "tests/support/datagram.h"

namespace verbena::fuzz {
namespace {

using packet::OpcodeInfo;

/// What the first byte of a step says, modulo kActions. All but the last three bring a frame.
enum Action : std::uint8_t {
  frame,
  frame_again,       // twice the same
  frame_to_group,    // to the multicast address
  frame_to_revived,  // to a queue pair that comes afresh from RESET
  frame_to_blocked,  // the wire takes no answer
  post,
  wait,
  program,
  kActions,
};

/// Bits of the third byte.
struct Patch {
  static constexpr std::uint8_t kService = 1u << 0;  // opcode, QPN and partition
  static constexpr std::uint8_t kPsn = 1u << 1;
  static constexpr std::uint8_t kKeys = 1u << 2;      // key, address, shared queue, Q_Key
  static constexpr std::uint8_t kLength = 1u << 3;    // the RETH's is the payload's
  static constexpr std::uint8_t kPad = 1u << 4;       // none, and whole words
  static constexpr std::uint8_t kStranger = 1u << 5;  // it comes from another address
  static constexpr std::uint8_t kMarked = 1u << 6;    // "congestion experienced"
  static constexpr std::uint8_t kHold = 1u << 7;      // more follows before anybody works
  static constexpr std::uint8_t kBase = kService | kPsn | kKeys;
};

struct Step {
  static constexpr std::size_t kSize = 6;

  std::uint8_t action = 0;
  std::uint8_t who = 0;  // low 3 bits: the queue pair; above: the memory area
  std::uint8_t patch = 0;
  std::int8_t shift = 0;   // added to the PSN; or what the program does
  std::uint16_t size = 0;  // of the frame behind it

  [[nodiscard]] std::size_t qp() const { return who % Device::kQueuePairs; }
  [[nodiscard]] std::size_t area() const { return who / Device::kQueuePairs; }
  [[nodiscard]] bool wants(std::uint8_t bit) const { return (patch & bit) != 0; }
};

Step decode_step(std::span<const std::uint8_t> b) {
  return {.action = static_cast<std::uint8_t>(b[0] % kActions),
          .who = b[1],
          .patch = b[2],
          .shift = static_cast<std::int8_t>(b[3]),
          .size = load_be16(&b[4])};
}

void append_step(Bytes& out, const Step& s, std::span<const std::uint8_t> bytes) {
  const std::array<std::uint8_t, 4> head{s.action, s.who, s.patch,
                                         static_cast<std::uint8_t>(s.shift)};
  out.insert(out.end(), head.begin(), head.end());
  out.resize(out.size() + 2);
  store_be16(&out[out.size() - 2], static_cast<std::uint16_t>(bytes.size()));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// ---- patching

void patch_service(Bytes& f, const engine::QueuePair& qp) {
  if (f[0] != static_cast<std::uint8_t>(packet::Opcode::cnp)) {
    const unsigned op = qp.type == engine::QpType::ud ? 4 | (f[0] & 1u) : f[0] & 0x1fu;
    f[0] = static_cast<std::uint8_t>((static_cast<unsigned>(qp.service()) << 5) | op);
  }
  f[1] &= 0xf0;  // transport version 0
  store_be16(&f[2], packet::kDefaultPkey);
  store_be24(&f[5], qp.qpn.value());
}

void patch_psn(Bytes& f, const engine::QueuePair& qp, std::int8_t shift) {
  const bool response = packet::info_of(static_cast<packet::Opcode>(f[0])).is_response();
  const Psn base = response ? qp.completer.unacked : qp.responder.expected;
  store_be24(&f[9], (base + static_cast<std::uint32_t>(shift)).value());
}

/// Near the area's bytes, now and then beyond them.
std::uint64_t near(const engine::MemoryRegion& area, std::uint64_t address) {
  return area.iova + address % (area.length + 64);
}

/// Walks the extension headers as Extensions orders them.
void patch_extensions(Bytes& f, Device& device, const Step& s) {
  const OpcodeInfo& info = packet::info_of(static_cast<packet::Opcode>(f[0]));
  if (f.size() < packet::Bth::kSize + info.extension_size() + packet::kIcrcSize) return;
  const std::size_t payload =
      f.size() - packet::Bth::kSize - info.extension_size() - packet::kIcrcSize;
  const engine::MemoryRegion& area = device.area(s.area());
  std::uint8_t* p = f.data() + packet::Bth::kSize;
  const bool keys = s.wants(Patch::kKeys);
  if (info.xrceth) {
    if (keys) store_be24(p + 1, device.xrc_srq(s.area()));
    p += packet::Xrceth::kSize;
  }
  if (info.deth) {
    if (keys) store_be32(p, Device::kQkey);
    p += packet::Deth::kSize;
  }
  if (info.feth) p += packet::Feth::kSize;
  if (info.reth) {
    if (keys) {
      store_be64(p, near(area, load_be64(p)));
      store_be32(p + 8, area.key.value());
    }
    if (s.wants(Patch::kLength)) {
      store_be32(p + 12, static_cast<std::uint32_t>(
                             payload - std::min<std::size_t>(payload, (f[1] >> 4) & 3u)));
    }
    p += packet::Reth::kSize;
  }
  if (info.atomic_eth) {
    if (keys) {
      store_be64(p, near(area, load_be64(p)) & ~std::uint64_t{7});
      store_be32(p + 8, area.key.value());
    }
    p += packet::AtomicEth::kSize;
  }
  if (info.ieth && keys) store_be32(p, device.area(Device::window).key.value());
}

void patch(Bytes& f, Device& device, const Step& s) {
  if (f.size() < packet::Bth::kSize + packet::kIcrcSize) return;
  const engine::QueuePair& qp = device.qp(s.qp());
  if (s.wants(Patch::kPad)) {
    f[1] &= 0xcf;
    f.resize((f.size() + 3) & ~std::size_t{3});
  }
  if (s.wants(Patch::kService)) patch_service(f, qp);
  if (s.wants(Patch::kPsn)) patch_psn(f, qp, s.shift);
  patch_extensions(f, device, s);
  if (s.action == frame_to_group) store_be24(&f[5], Qpn::kMask);
}

// ---- the steps

void arrive(Device& device, const Step& s, std::span<const std::uint8_t> bytes) {
  if (s.action == frame_to_revived) device.revive(s.qp());
  if (s.action == frame_to_blocked) device.block(1);
  Bytes f(bytes.begin(), bytes.end());
  patch(f, device, s);
  f.shrink_to_fit();
  const packet::Datagram datagram = test::delivered(
      {.source = s.wants(Patch::kStranger) ? Device::group() : Device::peer(),
       .destination = s.action == frame_to_group ? Device::group() : Device::address(),
       .source_port = 0xc000,
       .traffic_class = static_cast<std::uint8_t>(s.wants(Patch::kMarked) ? 3 : 0),
       .hop_limit = 64,
       .bytes = f});
  device.receive(datagram);
  if (s.action == frame_again) device.receive(datagram);
}

void act(Device& device, const Step& s) {
  switch (static_cast<std::uint8_t>(s.shift) % 14) {
    case 0:
      return device.change_state(s.qp(), engine::QpState::error);
    case 1:
      return device.change_state(s.qp(), engine::QpState::sqd);
    case 2:
      return device.change_state(s.qp(), engine::QpState::rts);
    case 3:
      return device.bind_window();
    case 4:
      return device.renew_xrc_srq(s.area());
    case 5:
      return device.set_srq_limit(static_cast<std::uint32_t>(s.area()));
    case 6:
      return device.renew_area(Device::open);
    case 7:
      return device.renew_area(Device::local);
    case 8:
      return device.unmap(1 + static_cast<unsigned>(s.area()) % 4);
    case 9:
      return device.starve(true);
    case 10:
      return device.starve(false);
    case 11:
      return device.arm();
    case 12:
      return device.renew_queue_pair(s.qp());
    default:
      return device.revive(s.qp());
  }
}

void take(Device& device, const Step& s, std::span<const std::uint8_t> bytes) {
  switch (s.action) {
    case post:
      device.post_send(s.qp(), static_cast<engine::SendKind>(s.patch % 12),
                       static_cast<std::uint8_t>(s.shift) * 16u, s.area());
      break;
    case wait:
      for (std::size_t i = 0; i <= s.area(); ++i) {
        device.pass(std::chrono::microseconds{std::int64_t{1} << (s.shift & 0x1f)});
        device.settle();
      }
      break;
    case program:
      act(device, s);
      break;
    default:
      arrive(device, s, bytes);
      break;
  }
  if (s.wants(Patch::kHold) && s.action < post) return;
  device.pass(std::chrono::microseconds{10});
  device.settle();
}

// ---- seeds

/// What the program must have posted to get such a request onto the wire.
std::optional<engine::SendKind> posted_for(const OpcodeInfo& info) {
  using engine::SendKind;
  switch (info.kind) {
    case packet::Kind::send:
      return info.first ? std::optional{SendKind::send} : std::nullopt;
    case packet::Kind::write:
      return info.first ? std::optional{SendKind::write} : std::nullopt;
    case packet::Kind::read_request:
      return SendKind::read;
    case packet::Kind::compare_swap:
      return SendKind::compare_swap;
    case packet::Kind::fetch_add:
      return SendKind::fetch_add;
    default:
      return std::nullopt;
  }
}

/// The packet with an XRC header, as a request of XRC has it.
Bytes with_xrceth(const Bytes& f, const OpcodeInfo& info) {
  Bytes out = f;
  if (info.is_request()) out.insert(out.begin() + packet::Bth::kSize, packet::Xrceth::kSize, 0);
  return out;
}

/// A request of each kind to one queue pair, in the order of the opcode table.
Bytes every_opcode(std::uint8_t qp) {
  constexpr std::uint32_t kPayload = 8;
  const Bytes payload(kPayload, 0x11);
  Bytes out;
  for (const packet::detail::Row& row : packet::detail::kRows) {
    const OpcodeInfo& info = packet::info_of(row.opcode);
    const bool empty = info.is_response() || (info.reth && info.kind != packet::Kind::write &&
                                              info.kind != packet::Kind::atomic_write);
    packet::Packet p;
    p.bth.opcode = row.opcode;
    p.feth.global_visibility = true;
    p.reth.length = kPayload;
    if (!empty) p.payload = payload;
    Bytes frame_bytes(packet::frame_size(row.opcode, p.payload.size()) + packet::kIcrcSize);
    packet::encode(p, frame_bytes);
    append_step(out, {.action = frame, .who = qp, .patch = Patch::kBase}, frame_bytes);
  }
  return out;
}

Bytes replayed(const Recording& recording, std::uint8_t serving, std::uint8_t asking) {
  constexpr std::size_t kLongest = 16'384;
  Bytes out;
  for (const test::Captured& c : recording) {
    if (c.payload.size() < packet::Bth::kSize + packet::kIcrcSize) continue;
    if (out.size() + c.payload.size() + 3 * Step::kSize > kLongest) break;
    const OpcodeInfo& info = packet::info_of(static_cast<packet::Opcode>(c.payload[0]));
    const bool response = info.is_response();
    if (const auto kind = posted_for(info)) {
      append_step(out,
                  {.action = post,
                   .who = asking,
                   .patch = static_cast<std::uint8_t>(*kind),
                   .shift = -128},  // 2 KiB
                  {});
    }
    const std::uint8_t patch =
        Patch::kBase |
        (info.reth && info.kind == packet::Kind::write && info.last ? Patch::kLength
                                                                    : std::uint8_t{0});
    append_step(out, {.action = frame, .who = response ? asking : serving, .patch = patch},
                serving == 5 ? with_xrceth(c.payload, info) : c.payload);
  }
  return out;
}

// ---- mutations

struct Placed {
  Step step;
  Bytes bytes;
};

std::vector<Placed> split(std::span<const std::uint8_t> input) {
  std::vector<Placed> out;
  while (input.size() >= Step::kSize) {
    const Step step = decode_step(input);
    input = input.subspan(Step::kSize);
    const auto bytes = input.first(std::min<std::size_t>(step.size, input.size()));
    input = input.subspan(bytes.size());
    out.push_back({step, {bytes.begin(), bytes.end()}});
  }
  return out;
}

void change(std::vector<Placed>& steps, std::mt19937_64& random) {
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto at = static_cast<std::ptrdiff_t>(pick(steps.size()));
  Placed& here = steps[static_cast<std::size_t>(at)];
  switch (pick(8)) {
    case 0:
      steps.erase(steps.begin() + at);
      return;
    case 1: {
      const Placed copy = here;
      steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(pick(steps.size())), copy);
      return;
    }
    case 2:
      std::swap(here, steps[pick(steps.size())]);
      return;
    case 3:
    case 4: {  // somebody does something in between
      const Step step{.action = static_cast<std::uint8_t>(post + pick(3)),
                      .who = static_cast<std::uint8_t>(random()),
                      .patch = static_cast<std::uint8_t>(random()),
                      .shift = static_cast<std::int8_t>(random())};
      steps.insert(steps.begin() + at, {step, {}});
      return;
    }
    case 5:
      here.step.action = static_cast<std::uint8_t>(pick(kActions));
      return;
    case 6:
      here.step.patch ^= static_cast<std::uint8_t>(1u << pick(8));
      here.step.shift = static_cast<std::int8_t>(pick(4) == 0 ? pick(8) - 4 : 0);
      return;
    default:
      if (pick(2) == 0) {
        here.step.who = static_cast<std::uint8_t>(random());
      } else if (!here.bytes.empty()) {  // the headers
        const std::size_t size = std::min<std::size_t>(here.bytes.size(), 48);
        here.bytes[pick(size)] = static_cast<std::uint8_t>(random());
      }
      return;
  }
}

}  // namespace

bool change(Bytes& input, std::mt19937_64& random) {
  std::vector<Placed> steps = split(input);
  if (steps.empty()) return false;
  change(steps, random);
  input.clear();
  for (const Placed& s : steps) append_step(input, s.step, s.bytes);
  return true;
}

std::vector<Bytes> seeds_of(const std::vector<Recording>& recordings) {
  std::vector<Bytes> out;
  // By service: to the queue pairs that serve it, answers to those that ask.
  for (const Recording& r : recordings) {
    if (r.empty() || r[0].payload.empty()) continue;
    switch (static_cast<packet::Service>(r[0].payload[0] >> 5)) {
      case packet::Service::uc:
        out.push_back(replayed(r, 3, 3));
        break;
      case packet::Service::ud:
        out.push_back(replayed(r, 4, 4));
        break;
      default:
        out.push_back(replayed(r, 1, 0));
        out.push_back(replayed(r, 2, 2));
        out.push_back(replayed(r, 5, 6));
        break;
    }
  }
  // What the kernel doesn't speak.
  for (std::uint8_t qp = 0; qp < Device::kQueuePairs; ++qp) out.push_back(every_opcode(qp));
  return out;
}

}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbena::fuzz;
  Device device;
  for (const Placed& s : split({data, size})) take(device, s.step, s.bytes);
  device.flush_all();
  return 0;
}
