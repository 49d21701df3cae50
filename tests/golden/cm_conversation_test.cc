// Our connection manager at either end of the kernel's recorded conversations: what it is given is
// what the kernel was given, and what it says must be what the kernel said, byte for byte but for
// the numbers that each end makes up for itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cm/connection_manager.h"
#include "packet/cm_mad.h"
#include "packet/cm_print.h"
#include "packet/cm_steering.h"
#include "packet/ip_cm_header.h"
#include "packet/packet.h"
#include "tests/support/pcap.h"

#ifndef VERBENA_GOLDEN_DIR
#define VERBENA_GOLDEN_DIR "tests/golden"
#endif

namespace verbena::cm {
namespace {

using packet::CmMad;
using packet::CmMessage;
using packet::CommId;

/// A message of a recording.
struct Recorded {
  IpAddress source;
  IpAddress destination;
  CmMad mad;
};

std::vector<Recorded> messages_of(const std::string& name) {
  const auto packets = test::read_pcap_file(std::string{VERBENA_GOLDEN_DIR} + "/" + name + ".pcap");
  if (!packets) {
    ADD_FAILURE() << packets.error().message;
    return {};
  }
  std::vector<Recorded> out;
  for (const test::Captured& c : *packets) {
    if (!packet::cm_target(c.payload)) continue;
    const auto bytes = std::span{c.payload}.subspan(packet::CmOffsets::kMad, packet::kMadSize);
    out.push_back({c.source, c.destination, std::get<CmMad>(packet::decode_cm(bytes))});
  }
  return out;
}

class Numbers final : public Entropy {
 public:
  [[nodiscard]] std::uint32_t next() override { return static_cast<std::uint32_t>(random_()); }

 private:
  std::mt19937_64 random_{11};
};

/// Calls `f` with each communication id of a message.
template <typename F>
void for_each_id(CmMessage& message, F f) {
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.local_id; }) f(m.local_id);
        if constexpr (requires { m.remote_id; }) f(m.remote_id);
        if constexpr (requires { m.request_id; }) f(m.request_id);
      },
      message);
}

/// Which of a recording's numbers ours stand for.
class Translation {
 public:
  void learn(CommId ours, CommId recorded) {
    if (ours.known() && recorded.known()) ids_[recorded.value()] = ours;
  }
  void learn(std::uint64_t ours, std::uint64_t recorded) { transactions_[recorded] = ours; }
  /// The recorded message with our numbers in it.
  [[nodiscard]] CmMad to_ours(CmMad mad) const {
    for_each_id(mad.message, [this](CommId& id) {
      if (const auto found = ids_.find(id.value()); found != ids_.end()) id = found->second;
    });
    const auto found = transactions_.find(mad.transaction);
    if (found != transactions_.end()) mad.transaction = found->second;
    return mad;
  }

 private:
  std::map<std::uint32_t, CommId> ids_;
  std::map<std::uint64_t, std::uint64_t> transactions_;
};

QueuePairOffer offer_of(const packet::CmReq& m) {
  return {.qpn = m.qpn,
          .starting_psn = m.starting_psn,
          .responder_resources = m.responder_resources,
          .initiator_depth = m.initiator_depth,
          .rnr_retry_count = m.rnr_retry_count,
          .flow_control = m.flow_control,
          .srq = m.srq};
}

QueuePairOffer offer_of(const packet::CmRep& m) {
  return {.qpn = m.qpn,
          .starting_psn = m.starting_psn,
          .responder_resources = m.responder_resources,
          .initiator_depth = m.initiator_depth,
          .rnr_retry_count = m.rnr_retry_count,
          .flow_control = m.flow_control,
          .srq = m.srq};
}

template <std::size_t N>
PrivateData program_data(const std::array<std::uint8_t, N>& data, bool behind_header) {
  return {data.begin() + (behind_header ? packet::IpCmHeader::kSize : 0), data.end()};
}

ConnectParameters parameters_of(const Recorded& r, const packet::CmReq& m) {
  return {.source = r.source,
          .destination = r.destination,
          .service = m.service,
          .source_port = packet::decode_ip_cm_header(m.private_data)->source_port,
          .ca_guid = m.ca_guid,
          .offer = offer_of(m),
          .retry_count = m.retry_count,
          .mtu = m.mtu,
          .ack_timeout = m.primary.ack_timeout,
          .traffic_class = m.primary.traffic_class,
          .hop_limit = m.primary.hop_limit,
          .flow_label = m.primary.flow_label,
          .private_data = program_data(m.private_data, true)};
}

SidrRequestParameters parameters_of(const Recorded& r, const packet::CmSidrReq& m) {
  return {.source = r.source,
          .destination = r.destination,
          .service = m.service,
          .source_port = packet::decode_ip_cm_header(m.private_data)->source_port,
          .private_data = program_data(m.private_data, true)};
}

/// Plays one host of a recording. The program does what makes the kernel send the recorded
/// messages of that host; those of the other host come in.
class Player {
 public:
  /// `pause`: from one message of the story to the next.
  Player(std::vector<Recorded> story, IpAddress ours,
         Duration pause = std::chrono::milliseconds{10})
      : story_{std::move(story)}, ours_{ours}, pause_{pause} {}

  void play(bool somebody_listens) {
    if (somebody_listens) listen();
    for (const Recorded& r : story_) {
      now_ += pause_;
      if (r.source == ours_) {
        do_what_sends(r);
        expect_sent(r);
      } else {
        receive(r);
      }
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_TRUE(cm_.outbox().empty()) << "more than the kernel said";
  }

  [[nodiscard]] std::vector<EventKind> told() const { return told_; }
  [[nodiscard]] const std::vector<Event>& events() const { return events_; }
  [[nodiscard]] std::size_t left_after_timewait() {
    now_ += std::chrono::minutes{5};
    cm_.expire(now_);
    return cm_.connections();
  }

 private:
  void listen() {
    const auto service = std::visit(
        [](const auto& m) {
          if constexpr (requires { m.service; }) return m.service;
          return ServiceId{};
        },
        story_.at(0).mad.message);
    const bool datagram = std::holds_alternative<packet::CmSidrReq>(story_[0].mad.message);
    ASSERT_TRUE(cm_.listen({.service = service, .datagram = datagram}).ok());
  }

  void receive(const Recorded& r) {
    const auto bytes = packet::encode_cm(translation_.to_ours(r.mad));
    cm_.receive({.route = {.local = r.destination, .remote = r.source}, .bytes = bytes}, now_);
    for (const Event& e : std::exchange(cm_.events(), {})) {
      id_ = e.id;
      told_.push_back(e.kind);
      events_.push_back(e);
    }
  }

  void do_what_sends(const Recorded& r) {
    std::visit([&](const auto& m) { act(r, m); }, r.mad.message);
  }
  void act(const Recorded& r, const packet::CmReq& m) {
    const auto id = cm_.connect(parameters_of(r, m), now_);
    ASSERT_TRUE(id.ok()) << id.error().message;
    id_ = *id;
  }
  void act(const Recorded&, const packet::CmRep& m) {
    ASSERT_TRUE(cm_.accept(id_,
                           {.ca_guid = m.ca_guid,
                            .offer = offer_of(m),
                            .private_data = program_data(m.private_data, false)},
                           now_)
                    .ok());
  }
  void act(const Recorded&, const packet::CmRtu& m) {
    ASSERT_TRUE(cm_.establish(id_, program_data(m.private_data, false)).ok());
  }
  void act(const Recorded&, const packet::CmDreq& m) {
    ASSERT_TRUE(cm_.disconnect(id_, program_data(m.private_data, false), now_).ok());
  }
  void act(const Recorded&, const packet::CmDrep& m) {
    ASSERT_TRUE(cm_.disconnect(id_, program_data(m.private_data, false), now_).ok());
  }
  void act(const Recorded& r, const packet::CmSidrReq& m) {
    const auto id = cm_.sidr_request(parameters_of(r, m), now_);
    ASSERT_TRUE(id.ok()) << id.error().message;
    id_ = *id;
  }
  void act(const Recorded&, const packet::CmSidrRep& m) {
    ASSERT_TRUE(cm_.sidr_reply(id_, {.status = m.status,
                                     .qpn = m.qpn,
                                     .qkey = m.qkey,
                                     .private_data = program_data(m.private_data, false)})
                    .ok());
  }
  /// Nobody listens: it is sent without the program.
  void act(const Recorded&, const packet::CmRej&) {}
  template <typename Other>
  void act(const Recorded&, const Other&) {
    FAIL() << "no recording has such a message";
  }

  void expect_sent(const Recorded& r) {
    ASSERT_EQ(cm_.outbox().size(), 1u) << "instead of " << text(r.mad);
    const OutgoingMad sent = cm_.outbox().front();
    cm_.outbox().clear();
    EXPECT_EQ(sent.route.local, r.source);
    EXPECT_EQ(sent.route.remote, r.destination);
    EXPECT_EQ(sent.route.remote_qp, packet::kGsiQpn);
    const CmMad ours = std::get<CmMad>(packet::decode_cm(sent.bytes));
    learn(ours, r.mad);
    EXPECT_EQ(sent.bytes, packet::encode_cm(translation_.to_ours(r.mad)))
        << "ours:   " << text(ours) << "\nkernel: " << text(r.mad);
  }

  /// Where the kernel made up a number, ours may differ, from then on.
  void learn(CmMad ours, CmMad recorded) {
    const bool req = std::holds_alternative<packet::CmReq>(ours.message) ||
                     std::holds_alternative<packet::CmSidrReq>(ours.message);
    const bool rep = std::holds_alternative<packet::CmRep>(ours.message);
    const bool dreq = std::holds_alternative<packet::CmDreq>(ours.message);
    if (req || rep) translation_.learn(own_id(ours), own_id(recorded));
    if (req || dreq) translation_.learn(ours.transaction, recorded.transaction);
  }
  /// The sender's own id.
  static CommId own_id(CmMad& mad) {
    std::vector<CommId> ids;
    for_each_id(mad.message, [&ids](CommId& id) { ids.push_back(id); });
    return ids.at(0);
  }

  std::vector<Recorded> story_;
  IpAddress ours_;
  Duration pause_;
  Numbers entropy_;
  ConnectionManager cm_{{.slot = 3}, entropy_};
  Translation translation_;
  Instant now_{std::chrono::hours{1}};
  ConnectionId id_{};
  std::vector<EventKind> told_;
  std::vector<Event> events_;
};

class CmConversation : public testing::TestWithParam<const char*> {
 protected:
  using enum EventKind;
  std::vector<Recorded> story_ = messages_of(GetParam());
};

TEST_P(CmConversation, AsTheActiveEnd) {
  ASSERT_EQ(story_.size(), 5u);
  Player player{story_, story_[0].source};
  player.play(false);
  EXPECT_EQ(player.told(), (std::vector{connect_response, disconnected}));
  EXPECT_EQ(player.left_after_timewait(), 0u);
}

TEST_P(CmConversation, AsThePassiveEnd) {
  ASSERT_EQ(story_.size(), 5u);
  Player player{story_, story_[0].destination};
  player.play(true);
  EXPECT_EQ(player.told(), (std::vector{connect_request, established, disconnected}));
  EXPECT_EQ(player.left_after_timewait(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, CmConversation,
                         testing::Values("cm-rping", "cm-rping-ipv6", "cm-rdma-client",
                                         "cm-rsocket", "cm-ucmatose"),
                         [](const auto& c) {
                           std::string name = c.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// rping printed "RDMA_CM_EVENT_REJECTED, error 8".
TEST(CmConversations, NobodyListens) {
  const auto story = messages_of("cm-reject-noport");
  ASSERT_EQ(story.size(), 2u);
  Player passive{story, story[0].destination};
  passive.play(false);
  EXPECT_TRUE(passive.told().empty());

  // A kernel's program hears of it at once, ours when it is still so after a while.
  Player active{story, story[0].source, ListenerRetry::kGiveUpAfter};
  active.play(false);
  ASSERT_EQ(active.told(), (std::vector{EventKind::rejected}));
  EXPECT_EQ(active.events()[0].status, 8);
  EXPECT_EQ(active.left_after_timewait(), 0u);
}

TEST(CmConversations, Sidr) {
  const auto story = messages_of("cm-udaddy-sidr");
  ASSERT_EQ(story.size(), 2u);
  Player passive{story, story[0].destination};
  passive.play(true);
  ASSERT_EQ(passive.told(), (std::vector{EventKind::connect_request}));
  EXPECT_EQ(passive.events()[0].offer.local.port, 7174);
  EXPECT_EQ(passive.left_after_timewait(), 0u);

  Player active{story, story[0].source};
  active.play(false);
  ASSERT_EQ(active.told(), (std::vector{EventKind::established}));
  EXPECT_EQ(active.events()[0].offer.qpn, Qpn{0x37a});
  EXPECT_EQ(active.events()[0].offer.qkey, 0x0123'4567u);
}

}  // namespace
}  // namespace verbena::cm
