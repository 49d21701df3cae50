#pragma once

// Two connection managers, and a test between them that delivers, loses or duplicates their
// messages.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "cm/connection_manager.h"
#include "packet/cm_mad.h"
#include "packet/cm_print.h"

namespace verbena::cm {

using namespace std::chrono_literals;
using packet::CmAttribute;
using packet::CmMad;
using packet::CommId;
using packet::RejectReason;

class TestEntropy final : public Entropy {
 public:
  explicit TestEntropy(std::uint64_t seed) : random_{seed} {}
  [[nodiscard]] std::uint32_t next() override { return static_cast<std::uint32_t>(random_()); }

 private:
  std::mt19937_64 random_;
};

inline CmMad decoded(const OutgoingMad& mad) {
  return std::get<CmMad>(packet::decode_cm(mad.bytes));
}

template <typename Message>
Message message_of(const OutgoingMad& mad) {
  return std::get<Message>(decoded(mad).message);
}

struct TestHost {
  TestHost(std::uint32_t slot, IpAddress a, const Config& base = {})
      : address{a}, entropy{slot}, config{with_slot(base, slot)}, cm{config, entropy} {}

  static Config with_slot(Config c, std::uint32_t slot) {
    c.slot = slot;
    return c;
  }

  /// The messages that wait to be sent, taken away.
  [[nodiscard]] std::vector<OutgoingMad> sent() { return std::exchange(cm.outbox(), {}); }
  /// The only one.
  [[nodiscard]] OutgoingMad sent_one() {
    const auto mads = sent();
    EXPECT_EQ(mads.size(), 1u);
    return mads.empty() ? OutgoingMad{} : mads.front();
  }
  [[nodiscard]] std::vector<Event> told() { return std::exchange(cm.events(), {}); }
  [[nodiscard]] Event told_one() {
    const auto events = told();
    EXPECT_EQ(events.size(), 1u);
    return events.empty() ? Event{} : events.front();
  }

  IpAddress address;
  TestEntropy entropy;
  Config config;
  ConnectionManager cm;
};

class TwoHosts : public testing::Test {
 protected:
  static constexpr std::uint64_t kGuidA = 0x0200'00ff'fe00'0001;
  static constexpr std::uint64_t kGuidB = 0x0200'00ff'fe00'0002;
  static constexpr std::uint16_t kPort = 7471;
  /// 4.096 us * (2^20 + 2^19): the peer's response timeout and the ACK timeout.
  static constexpr Duration kRequestInterval{4096ll * ((1 << 20) + (1 << 19))};
  static constexpr Duration kReplyInterval{4096ll << 20};

  static ServiceId service() { return {PortSpace::tcp, kPort}; }

  ListenerId listen(std::uint32_t backlog = 16) {
    auto id = b.cm.listen({.service = service(), .backlog = backlog});
    EXPECT_TRUE(id.ok());
    return *id;
  }
  [[nodiscard]] ConnectParameters request() const {
    return {.source = a.address,
            .destination = b.address,
            .service = service(),
            .source_port = 40'000,
            .ca_guid = kGuidA,
            .offer = {.qpn = Qpn{0x111},
                      .starting_psn = Psn{0xaaaaaa},
                      .responder_resources = 3,
                      .initiator_depth = 5,
                      .rnr_retry_count = 6},
            .retry_count = 4,
            .mtu = packet::PathMtu::mtu_2048,
            .private_data = {1, 2, 3}};
  }
  [[nodiscard]] static AcceptParameters reply() {
    return {.ca_guid = kGuidB,
            .offer = {.qpn = Qpn{0x222},
                      .starting_psn = Psn{0xbbbbbb},
                      .responder_resources = 2,
                      .initiator_depth = 1,
                      .rnr_retry_count = 5},
            .private_data = {4, 5}};
  }

  /// `mad` arrives at the other host.
  void deliver(const OutgoingMad& mad) {
    TestHost& to = mad.route.remote == a.address ? a : b;
    to.cm.receive(
        {.route = {.local = mad.route.remote, .remote = mad.route.local}, .bytes = mad.bytes}, now);
  }
  void deliver(const std::vector<OutgoingMad>& mads) {
    for (const auto& mad : mads) deliver(mad);
  }
  /// A message by hand, from `from`.
  void deliver(const TestHost& from, std::uint64_t transaction, const packet::CmMessage& message) {
    deliver({.route = {.local = from.address, .remote = &from == &a ? b.address : a.address},
             .bytes = packet::encode_cm({transaction, message})});
  }
  /// Until nobody has anything to say.
  void settle() {
    while (!a.cm.outbox().empty() || !b.cm.outbox().empty()) {
      deliver(a.sent());
      deliver(b.sent());
    }
  }
  /// Nobody listens, and b has waited for somebody: a is refused for good.
  void settle_without_listener() {
    deliver(a.sent());
    now += ListenerRetry::kGiveUpAfter;
    settle();
  }
  void pass(Duration time) {
    now += time;
    a.cm.expire(now);
    b.cm.expire(now);
  }
  /// To the next deadline of a host.
  void pass_to_deadline(TestHost& host) {
    ASSERT_NE(host.cm.next_deadline(), kNever);
    now = std::max(now, host.cm.next_deadline());
    host.cm.expire(now);
  }

  struct Established {
    ConnectionId a{};
    ConnectionId b{};
  };
  Established established() {
    if (!listener_) listener_ = listen();
    auto id = a.cm.connect(request(), now);
    EXPECT_TRUE(id.ok());
    settle();
    const Event asked = b.told_one();
    EXPECT_EQ(asked.kind, EventKind::connect_request);
    EXPECT_TRUE(b.cm.accept(asked.id, reply(), now).ok());
    settle();
    EXPECT_EQ(a.told_one().kind, EventKind::connect_response);
    EXPECT_TRUE(a.cm.establish(*id).ok());
    settle();
    EXPECT_EQ(b.told_one().kind, EventKind::established);
    return {*id, asked.id};
  }

  TestHost a{5, IpAddress::v4({10, 0, 0, 1})};
  TestHost b{9, IpAddress::v4({10, 0, 0, 2})};
  Instant now{1h};

 private:
  std::optional<ListenerId> listener_;
};

}  // namespace verbena::cm
