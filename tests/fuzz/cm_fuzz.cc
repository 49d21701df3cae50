// Fuzz target: a connection manager takes any messages while its owner does as it likes. Whatever
// comes: what it sends can be read, no message makes more than a few, no connection ends twice,
// no limit is passed, and when the owner lets go, nothing is left.
//
// Run: cmake --preset fuzz && cmake --build --preset fuzz --target cm_fuzz
//      build/fuzz/fuzz/cm_fuzz -max_total_time=60 build/fuzz/fuzz/cm_seeds
//
// An input is a row of steps: action, choice, patch, two bytes of size, bytes.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "cm/connection_manager.h"
#include "packet/cm_mad.h"
#include "packet/cm_print.h"
#include "packet/cm_steering.h"
#include "tests/fuzz/target.h"

namespace verbena::fuzz {
namespace {

using packet::CommId;

enum Action : std::uint8_t {
  message,
  connect,
  accept,
  establish,
  reject,
  disconnect,
  notify,
  destroy,
  taken,
  ask,
  reply,
  bounce,
  wait,
  kActions
};

/// What of a message is replaced by the numbers of a connection that exists.
struct Patch {
  static constexpr std::uint8_t kRemoteId = 1;
  static constexpr std::uint8_t kLocalId = 2;
  static constexpr std::uint8_t kQpn = 4;  // of a DREQ
  static constexpr std::uint8_t kOtherSource = 8;
  static constexpr std::uint8_t kOrphaned = 16;
};

struct Step {
  static constexpr std::size_t kSize = 5;
  std::uint8_t action = message;
  std::uint8_t choice = 0;
  std::uint8_t patch = 0;
  Bytes bytes{};
};

std::vector<Step> split(std::span<const std::uint8_t> input) {
  std::vector<Step> out;
  while (input.size() >= Step::kSize) {
    const std::size_t size =
        std::min<std::size_t>(load_be16(&input[3]), input.size() - Step::kSize);
    const auto bytes = input.subspan(Step::kSize, size);
    out.push_back({input[0], input[1], input[2], {bytes.begin(), bytes.end()}});
    input = input.subspan(Step::kSize + size);
  }
  return out;
}

Bytes join(const std::vector<Step>& steps) {
  Bytes out;
  for (const Step& s : steps) {
    std::array<std::uint8_t, Step::kSize> head{s.action, s.choice, s.patch};
    store_be16(&head[3], static_cast<std::uint16_t>(s.bytes.size()));
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

/// A host under attack.
class Victim final : Entropy {
 public:
  static IpAddress address() { return IpAddress::v4({10, 77, 0, 2}); }
  static IpAddress peer() { return IpAddress::v4({10, 77, 0, 3}); }
  static IpAddress stranger() { return IpAddress::v4({10, 77, 0, 66}); }
  static ServiceId stream() { return {PortSpace::tcp, 7471}; }
  static ServiceId datagram() { return {PortSpace::udp, 7174}; }

  Victim() {
    require(cm_.listen({.service = stream(), .backlog = 3}).ok(), "listen");
    require(cm_.listen({.service = datagram(), .datagram = true, .backlog = 3}).ok(), "listen");
    require(cm_.listen({.service = {PortSpace::tcp, 7174}, .address = address()}).ok(), "listen");
  }

  void take(const Step& step) {
    const std::size_t before = cm_.outbox().size();
    act(step);
    require(step.action != message || cm_.outbox().size() <= before + 2, "one message makes many");
    settle();
  }

  void finish() {
    for (const auto& [id, endings] : endings_) cm_.destroy(id, now_);
    settle();
    for (int i = 0; cm_.next_deadline() != kNever; ++i) {
      require(i < 10'000, "it comes to rest");
      now_ = std::max(now_, cm_.next_deadline());
      cm_.expire(now_);
      require(cm_.next_deadline() > now_, "a deadline is served");
      settle();
    }
    require(cm_.connections() == 0, "no connection is left");
    require(cm_.answers() == 0, "no answer is left");
  }

 private:
  struct Ends {
    CommId local{};
    CommId remote{};
    Qpn qpn{};
  };

  std::uint32_t next() override { return random_ = random_ * 1664525u + 1013904223u; }

  void act(const Step& s) {
    const cm::PrivateData data(s.bytes.begin(), s.bytes.end());
    switch (s.action % kActions) {
      case message:
        return receive(s);
      case connect: {
        const auto id = cm_.connect({.source = address(),
                                     .destination = peer(),
                                     .service = stream(),
                                     .source_port = s.choice,
                                     .ca_guid = 1,
                                     .transport = static_cast<cm::Transport>(s.patch % 3),
                                     .offer = {.qpn = Qpn{0x100u + s.choice}},
                                     .private_data = data},
                                    now_);
        if (id) endings_.emplace(*id, 0);
        return;
      }
      case accept:
        (void)cm_.accept(
            id_of(s),
            {.ca_guid = 1, .offer = {.qpn = Qpn{0x100u + s.choice}}, .private_data = data}, now_);
        return;
      case establish:
        (void)cm_.establish(id_of(s), data);
        return;
      case reject:
        (void)cm_.reject(
            id_of(s), {.reason = static_cast<packet::RejectReason>(s.patch), .private_data = data});
        return;
      case disconnect:
        (void)cm_.disconnect(id_of(s), data, now_);
        return;
      case notify:
        (void)cm_.notify_established(id_of(s));
        return;
      case destroy:
        if (!endings_.empty()) destroyed_.push_back(id_of(s));
        return cm_.destroy(id_of(s), now_);
      case taken:
        return cm_.taken(id_of(s));
      case ask: {
        const auto id = cm_.sidr_request({.source = address(),
                                          .destination = peer(),
                                          .service = datagram(),
                                          .source_port = s.choice,
                                          .private_data = data},
                                         now_);
        if (id) endings_.emplace(*id, 0);
        return;
      }
      case reply:
        (void)cm_.sidr_reply(id_of(s), {.qpn = Qpn{s.patch}, .private_data = data});
        return;
      case bounce:
        return come_back(s);
      default:
        now_ += Duration{std::int64_t{4096} << (s.choice % 28)};
        return cm_.expire(now_);
    }
  }

  [[nodiscard]] cm::ConnectionId id_of(const Step& s) const {
    if (endings_.empty()) return cm::ConnectionId{s.choice};
    return std::next(endings_.begin(), static_cast<std::ptrdiff_t>(s.choice % endings_.size()))
        ->first;
  }

  void receive(const Step& s) {
    Bytes mad = s.bytes;
    if (mad.size() >= packet::MadHeader::kSize + 12 && !ends_.empty()) {
      const Ends& e = ends_[s.choice % ends_.size()];
      std::uint8_t* const data = mad.data() + packet::MadHeader::kSize;
      if ((s.patch & Patch::kLocalId) != 0) store_be32(data, e.remote.value());
      if ((s.patch & Patch::kRemoteId) != 0) store_be32(data + 4, e.local.value());
      if ((s.patch & Patch::kQpn) != 0) store_be24(data + 8, e.qpn.value());
    }
    const IpAddress from = (s.patch & Patch::kOtherSource) != 0 ? stranger() : peer();
    cm_.receive({.route = {.local = address(), .remote = from},
                 .bytes = mad,
                 .orphaned = (s.patch & Patch::kOrphaned) != 0},
                now_);
  }

  /// The network says that one of the last messages reached nobody, or makes that up.
  void come_back(const Step& s) {
    if (sent_.empty()) return;
    cm::OutgoingMad mad = sent_[s.choice % sent_.size()];
    if (s.patch % 4 == 3) mad.bytes[s.patch % mad.bytes.size()] ^= 1;
    cm_.undelivered({.route = mad.route, .bytes = mad.bytes}, 111, now_);
  }

  void settle() {
    for (const auto& mad : std::exchange(cm_.outbox(), {})) {
      look_at(mad);
      sent_.push_back(mad);
      if (sent_.size() > kRemembered) sent_.pop_front();
    }
    for (const auto& event : std::exchange(cm_.events(), {})) look_at(event);
    require(cm_.connections() <= 2 * kConnections, "the limit of connections");
    require(cm_.answers() <= kAnswers, "the limit of answers");
  }

  void look_at(const cm::OutgoingMad& out) {
    const auto decoded = packet::decode_cm(out.bytes);
    const auto* mad = std::get_if<packet::CmMad>(&decoded);
    require(mad != nullptr, "what is sent can be read");
    require(packet::encode_cm(*mad) == out.bytes, "encode mirrors decode");
    require(text(*mad).find('\n') == std::string::npos, "a message is one line");
    require(out.route.local == address(), "messages come from here");
    if (const auto* req = std::get_if<packet::CmReq>(&mad->message)) {
      return remember({req->local_id, CommId{0x1234}, req->qpn});
    }
    if (const auto* rep = std::get_if<packet::CmRep>(&mad->message)) {
      return remember({rep->local_id, rep->remote_id, rep->qpn});
    }
    if (const auto* req = std::get_if<packet::CmSidrReq>(&mad->message)) {
      return remember({{}, req->request_id, {}});  // a SIDR_REP names it in the first place
    }
  }
  void remember(const Ends& e) {
    if (ends_.size() == 64) ends_.erase(ends_.begin());
    ends_.push_back(e);
  }

  void look_at(const cm::Event& e) {
    using enum cm::EventKind;
    if (e.kind == connect_request) {
      require(endings_.emplace(e.id, 0).second, "an id is used once");
      return;
    }
    const auto found = endings_.find(e.id);
    require(found != endings_.end(), "an event is somebody's");
    require(std::ranges::find(destroyed_, e.id) == destroyed_.end(), "silence after destroy()");
    const bool ending = e.kind == rejected || e.kind == unreachable || e.kind == connect_error ||
                        e.kind == disconnected || (e.kind == established && e.datagram);
    if (ending) require(++found->second == 1, "a connection ends once");
    if (e.kind == timewait_exit) require(found->second == 1, "timewait follows an ending");
  }

  static constexpr std::size_t kConnections = 8;
  static constexpr std::size_t kAnswers = 4;
  static constexpr std::size_t kRemembered = 8;

  std::uint32_t random_ = 1;
  Instant now_{std::chrono::hours{1}};
  cm::ConnectionManager cm_{{.slot = 3, .max_connections = kConnections, .max_answers = kAnswers},
                            *this};
  std::map<cm::ConnectionId, unsigned> endings_;
  std::vector<cm::ConnectionId> destroyed_;
  std::vector<Ends> ends_;
  std::deque<cm::OutgoingMad> sent_;  // the last ones
};

// ---- seeds

/// What the owner does before the next message comes.
std::vector<Step> owner_after(packet::CmAttribute attribute) {
  switch (attribute) {
    case packet::CmAttribute::req:
      return {{.action = taken}, {.action = accept}};
    case packet::CmAttribute::rep:
      return {{.action = establish}};
    case packet::CmAttribute::dreq:
      return {{.action = disconnect}, {.action = wait, .choice = 20}};
    case packet::CmAttribute::sidr_req:
      return {{.action = reply}};
    default:
      return {};
  }
}

Step step_of(const test::Captured& c) {
  const auto mad = std::span{c.payload}.subspan(packet::CmOffsets::kMad, packet::kMadSize);
  const auto attribute = static_cast<packet::CmAttribute>(load_be16(&mad[16]));
  Step s{.bytes = {mad.begin(), mad.end()}};
  if (attribute == packet::CmAttribute::sidr_rep) s.patch = Patch::kLocalId;
  if (attribute != packet::CmAttribute::req && attribute != packet::CmAttribute::sidr_req &&
      attribute != packet::CmAttribute::sidr_rep) {
    s.patch = Patch::kRemoteId | Patch::kLocalId;
  }
  if (attribute == packet::CmAttribute::dreq) s.patch |= Patch::kQpn;
  return s;
}

/// Our end of a recording: what comes from its host `from` comes in, after `first`.
Bytes replayed(const Recording& recording, const IpAddress& from, std::vector<Step> first) {
  for (const test::Captured& c : recording) {
    if (c.source != from || !packet::cm_target(c.payload)) continue;
    first.push_back(step_of(c));
    const auto attribute =
        static_cast<packet::CmAttribute>(load_be16(&c.payload[packet::CmOffsets::kAttribute]));
    for (const Step& s : owner_after(attribute)) first.push_back(s);
  }
  return join(first);
}

Bytes every_message() {
  std::vector<Step> steps{{.action = connect}, {.action = ask}};
  for (std::uint16_t a = 0x10; a <= 0x1a; ++a) {
    Step s{.patch = Patch::kRemoteId | Patch::kLocalId, .bytes = Bytes(packet::kMadSize)};
    packet::encode_mad_header({.management_class = packet::kCmClass,
                               .class_version = packet::kCmClassVersion,
                               .attribute = a},
                              s.bytes);
    steps.push_back(s);
  }
  return join(steps);
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
    case 4:  // the owner does something in between
      steps.insert(steps.begin() + at,
                   Step{.action = static_cast<std::uint8_t>(connect + pick(kActions - connect)),
                        .choice = static_cast<std::uint8_t>(random()),
                        .patch = static_cast<std::uint8_t>(random())});
      return;
    case 5:
      here.choice = static_cast<std::uint8_t>(pick(4) == 0 ? random() : pick(4));
      return;
    case 6:
      here.patch ^= static_cast<std::uint8_t>(1u << pick(4));
      return;
    default:
      if (here.bytes.size() != packet::kMadSize) return;
      if (pick(3) == 0) {
        here.bytes[17] = static_cast<std::uint8_t>(0x10 + pick(11));  // another message
      } else {
        here.bytes[packet::MadHeader::kSize + pick(60)] = static_cast<std::uint8_t>(random());
      }
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
  std::vector<Bytes> out{every_message()};
  for (const Recording& r : recordings) {
    const auto first = std::ranges::find_if(
        r, [](const test::Captured& c) { return packet::cm_target(c.payload).has_value(); });
    if (first == r.end()) continue;
    out.push_back(replayed(r, first->source, {}));
    out.push_back(replayed(r, first->destination, {{.action = connect}}));
    out.push_back(replayed(r, first->destination, {{.action = ask}}));
  }
  return out;
}

}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbena::fuzz;
  Victim victim;
  for (const Step& step : split({data, size})) victim.take(step);
  victim.finish();
  return 0;
}
