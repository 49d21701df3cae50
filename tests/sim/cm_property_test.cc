// Random programs connect, accept, reject, disconnect, destroy and die at random times over random
// networks. Whatever they do: one request is told once, every end hears exactly one ending, in
// bounded time, private data comes as it was given, and nothing is left over.
//
// SEED=7 replays one program, TRACE=1 prints its messages and events.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "packet/cm_mad.h"
#include "packet/cm_print.h"
#include "tests/sim/cm_world.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using cm::ConnectionId;
using cm::Event;
using cm::EventKind;
using cm::PrivateData;

constexpr std::uint16_t kPort = 7471;
const ServiceId kStream{PortSpace::tcp, kPort};
const ServiceId kDatagram{PortSpace::udp, kPort};
/// When a program has waited so long, its queue pair has failed: it disconnects.
constexpr Duration kPatience = 40min;
/// The longest that an ending may take: 16 tries of a peer that asked for patience.
constexpr Duration kEnding = 25min;

/// What the attempt `tag` puts into a message of this kind.
PrivateData pattern(std::uint32_t tag, char kind, std::size_t length) {
  PrivateData data(length);
  for (std::size_t i = 0; i < length; ++i) {
    data[i] = static_cast<std::uint8_t>(1 + (tag * 31 + static_cast<unsigned>(kind) + i) % 255);
  }
  return data;
}

PrivateData filled_up(PrivateData data, std::size_t size) {
  data.resize(size);
  return data;
}

/// One end of an attempt, as its program sees it.
struct Side {
  CmHost* host = nullptr;
  ConnectionId id{};
  bool datagram = false;
  bool destroyed = false;  // or rejected, or replied to: the program has let go of it
  bool established = false;
  unsigned endings = 0;
  EventKind ending{};
  bool timewait_over = false;

  [[nodiscard]] bool over() const { return destroyed || endings != 0; }
};

struct Attempt {
  std::uint32_t tag = 0;
  bool datagram = false;
  std::size_t request_length = 0;
  std::size_t reply_length = 0;
  std::size_t rtu_length = 0;
  std::size_t reject_length = 0;
  bool rejected = false;  // by the passive program
  unsigned requests = 0;  // that the passive program was told of
  Side active;
  Side passive;
};

class Program {
 public:
  explicit Program(std::uint64_t seed) : world_{seed} {
    hosts_[0] = &world_.add_host();
    hosts_[1] = &world_.add_host();
    if (std::getenv("TRACE") != nullptr) trace();
    for (CmHost* host : hosts_) {
      host->owner = [this, host](const Event& e) { hear(*host, e); };
      const std::uint32_t backlog = 1 + world_.pick(4);
      EXPECT_TRUE(host->cm().listen({.service = kStream, .backlog = backlog}).ok());
      EXPECT_TRUE(
          host->cm().listen({.service = kDatagram, .datagram = true, .backlog = backlog}).ok());
    }
  }

  void run() {
    choose_network();
    const std::uint32_t attempts = 1 + world_.pick(6);
    for (std::uint32_t i = 0; i < attempts; ++i) {
      world_.after(world_.pick(10s), [this] { attempt(); });
    }
    if (world_.pick(5) == 0) {
      world_.after(world_.pick(20s), [this] { hosts_[world_.pick(2)]->dead = true; });
    }
    world_.run_until(world_.now() + kPatience);
    check_agreement();
    end_all();
    world_.run_until(world_.now() + kEnding);
    check_endings();
    check_nothing_is_left();
    check_it_still_works();
  }

 private:
  void trace() {
    world_.trace = [this](const char* what, const cm::OutgoingMad& mad) {
      const auto decoded = packet::decode_cm(mad.bytes);
      say(std::string{what} + " " + mad.route.local.text() + " > " + mad.route.remote.text() + " " +
          text(std::get<packet::CmMad>(decoded)));
    };
  }
  void say(const std::string& line) const {
    if (!world_.trace) return;
    const auto time = std::chrono::duration<double>(world_.now().time_since_epoch());
    std::printf("%12.6f %s\n", time.count(), line.c_str());
  }

  void choose_network() {
    world_.link.delay = world_.pick(100ms);
    if (world_.pick(2) != 0) world_.link.loss_ppm = world_.pick(300'000);
    if (world_.pick(2) != 0) world_.link.duplicate_ppm = world_.pick(200'000);
    // Less than a packet may live (4.096 us * 2^18), which timewait is made for.
    if (world_.pick(2) != 0) world_.link.jitter = world_.pick(900ms);
    violent_ = world_.pick(2) != 0;
  }

  // ---- what programs do

  void attempt() {
    CmHost& from = *hosts_[world_.pick(2)];
    if (from.dead) return;
    CmHost& to = *hosts_[world_.pick(2)];  // itself, too
    auto& a = *attempts_.emplace(next_tag_, std::make_unique<Attempt>()).first->second;
    a.tag = next_tag_++;
    a.datagram = world_.pick(4) == 0;
    a.request_length = 4 + world_.pick(53);
    a.reply_length = world_.pick(a.datagram ? 137 : 197);
    a.rtu_length = world_.pick(225);
    a.reject_length = world_.pick(149);
    a.active = {.host = &from, .datagram = a.datagram};
    a.passive = {.host = &to, .datagram = a.datagram};
    const auto id = a.datagram ? ask(a, from, to) : connect(a, from, to);
    ASSERT_TRUE(id.ok()) << id.error().message;
    a.active.id = *id;
    by_id_[{&from, *id}] = {&a, &a.active};
    if (violent_ && world_.pick(4) == 0) destroy_later(a, a.active);
  }

  /// The tag is the port that it comes from.
  Result<ConnectionId> connect(const Attempt& a, CmHost& from, const CmHost& to) {
    return from.cm().connect({.source = from.address(),
                              .destination = to.address(),
                              .service = kStream,
                              .source_port = static_cast<std::uint16_t>(a.tag),
                              .ca_guid = from.address().bytes()[15],
                              .offer = {.qpn = Qpn{2 * a.tag}, .starting_psn = Psn{a.tag}},
                              .private_data = pattern(a.tag, 'q', a.request_length)},
                             world_.now());
  }
  Result<ConnectionId> ask(const Attempt& a, CmHost& from, const CmHost& to) {
    return from.cm().sidr_request({.source = from.address(),
                                   .destination = to.address(),
                                   .service = kDatagram,
                                   .source_port = static_cast<std::uint16_t>(a.tag),
                                   .private_data = pattern(a.tag, 'q', a.request_length)},
                                  world_.now());
  }

  void destroy_later(Attempt& a, Side& s) {
    world_.after(world_.pick(20s), [this, &a, &s] { destroy(a, s); });
  }
  void destroy(Attempt&, Side& s) {
    if (s.host->dead || s.destroyed) return;
    s.destroyed = true;
    s.host->cm().destroy(s.id, world_.now());
  }

  [[nodiscard]] Duration thinking() {
    return world_.pick(10) == 0 ? world_.pick(60s) : world_.pick(1s);
  }

  void answer_later(Attempt& a) {
    Side& s = a.passive;
    world_.after(thinking(), [this, &a, &s] {
      if (s.host->dead || s.over()) return;
      if (a.datagram) return reply(a);
      const std::uint32_t choice = violent_ ? world_.pick(6) : 5;
      if (choice == 0) return destroy(a, s);
      if (choice == 1) return reject(a);
      accept(a);
    });
  }
  void accept(Attempt& a) {
    Side& s = a.passive;
    const auto ok =
        s.host->cm().accept(s.id,
                            {.ca_guid = s.host->address().bytes()[15],
                             .offer = {.qpn = Qpn{2 * a.tag + 1}, .starting_psn = Psn{a.tag + 7}},
                             .private_data = pattern(a.tag, 'p', a.reply_length)},
                            world_.now());
    ASSERT_TRUE(ok.ok()) << ok.error().message;
    if (violent_ && world_.pick(4) == 0) destroy_later(a, s);
  }
  void reject(Attempt& a) {
    Side& s = a.passive;
    const auto ok =
        s.host->cm().reject(s.id, {.private_data = pattern(a.tag, 'j', a.reject_length)});
    ASSERT_TRUE(ok.ok()) << ok.error().message;
    a.rejected = true;
    s.destroyed = true;
  }
  void reply(Attempt& a) {
    Side& s = a.passive;
    const auto ok = s.host->cm().sidr_reply(
        s.id, {.qpn = Qpn{a.tag}, .private_data = pattern(a.tag, 'p', a.reply_length)});
    ASSERT_TRUE(ok.ok()) << ok.error().message;
    s.destroyed = true;
  }
  void establish_later(Attempt& a) {
    Side& s = a.active;
    world_.after(thinking(), [this, &a, &s] {
      if (s.host->dead || s.over()) return;
      if (violent_ && world_.pick(6) == 0) return destroy(a, s);
      const auto ok = s.host->cm().establish(s.id, pattern(a.tag, 'u', a.rtu_length));
      ASSERT_TRUE(ok.ok()) << ok.error().message;
      become_established(a, s);
    });
  }
  void become_established(Attempt& a, Side& s) {
    EXPECT_FALSE(s.established) << "twice";
    s.established = true;
    if (violent_ && world_.pick(2) == 0) disconnect_later(a, s, world_.pick(10s));
  }
  void disconnect_later(Attempt& a, Side& s, Duration time) {
    world_.after(time, [this, &a, &s] {
      if (s.host->dead || s.destroyed || s.timewait_over) return;
      if (world_.pick(5) == 0) return destroy(a, s);
      // An error where the peer was first, or the connection is over.
      (void)s.host->cm().disconnect(s.id, pattern(a.tag, 'd', 10), world_.now());
    });
  }

  // ---- what programs hear

  void hear(CmHost& host, const Event& e) {
    say(host.address().text() + " hears " + std::string{text(e.kind)} + " of " +
        std::to_string(static_cast<std::uint64_t>(e.id)) + " status " + std::to_string(e.status));
    if (e.kind == EventKind::connect_request) return hear_request(host, e);
    const auto found = by_id_.find({&host, e.id});
    ASSERT_NE(found, by_id_.end()) << "an event of nobody";
    Attempt& a = *found->second.first;
    Side& s = *found->second.second;
    EXPECT_FALSE(s.destroyed) << "an event after the end: " << text(e.kind);
    EXPECT_EQ(e.datagram, s.datagram);
    switch (e.kind) {
      case EventKind::connect_response:
        EXPECT_EQ(e.private_data, filled_up(pattern(a.tag, 'p', a.reply_length), 196));
        EXPECT_EQ(e.offer.qpn, Qpn{2 * a.tag + 1});
        EXPECT_EQ(e.offer.starting_psn, Psn{a.tag + 7});
        return establish_later(a);
      case EventKind::established:
        if (s.datagram) return hear_resolved(a, s, e);
        EXPECT_EQ(e.private_data, filled_up(pattern(a.tag, 'u', a.rtu_length), 224));
        return become_established(a, s);
      case EventKind::timewait_exit:
        EXPECT_EQ(s.endings, 1u) << "timewait before an ending";
        EXPECT_FALSE(s.timewait_over);
        s.timewait_over = true;
        return;
      case EventKind::rejected:
        if (a.rejected && &s == &a.active && e.status == 28) {
          EXPECT_EQ(e.private_data, filled_up(pattern(a.tag, 'j', a.reject_length), 148));
        }
        return hear_ending(a, s, e);
      case EventKind::disconnected:
        return hear_ending(a, s, e);
      case EventKind::unreachable:
      case EventKind::connect_error:
        return hear_ending(a, s, e);
      case EventKind::connect_request:
        return;
    }
  }

  void hear_request(CmHost& host, const Event& e) {
    const auto found = attempts_.find(e.offer.remote.port);
    ASSERT_NE(found, attempts_.end());
    Attempt& a = *found->second;
    ++a.requests;
    ASSERT_EQ(a.requests, 1u) << "one request was told twice";
    EXPECT_EQ(e.private_data,
              filled_up(pattern(a.tag, 'q', a.request_length), a.datagram ? 180 : 56));
    EXPECT_EQ(&host, a.passive.host);
    EXPECT_EQ(e.datagram, a.datagram);
    if (!a.datagram) {
      EXPECT_EQ(e.offer.qpn, Qpn{2 * a.tag});
    }
    a.passive.id = e.id;
    by_id_[{&host, e.id}] = {&a, &a.passive};
    if (world_.pick(2) == 0) {
      world_.after(world_.pick(1s), [&host, id = e.id] { host.cm().taken(id); });
    }
    answer_later(a);
  }

  void hear_resolved(const Attempt& a, Side& s, const Event& e) {
    EXPECT_EQ(e.offer.qpn, Qpn{a.tag});
    EXPECT_EQ(e.private_data, filled_up(pattern(a.tag, 'p', a.reply_length), 136));
    s.established = true;
    ++s.endings;
    s.ending = e.kind;
  }

  void hear_ending(Attempt& a, Side& s, const Event& e) {
    ++s.endings;
    s.ending = e.kind;
    EXPECT_EQ(s.endings, 1u) << "a second ending: " << text(e.kind);
    if (e.kind == EventKind::disconnected) disconnect_later(a, s, thinking());
  }

  // ---- what must be true

  /// Neither end is left in suspense. Both ends are up, or both know that they aren't; but an
  /// active end may be up whose peer never heard its RTU, and was unreachable to it.
  void check_agreement() {
    for (const auto& [tag, attempt] : attempts_) {
      const Attempt& a = *attempt;
      if (a.active.host->dead || a.passive.host->dead) continue;
      if (!a.active.over()) {
        EXPECT_TRUE(a.active.established) << "attempt " << tag << ": the active end hangs";
      }
      if (a.requests == 1 && !a.passive.over()) {
        EXPECT_TRUE(a.passive.established) << "attempt " << tag << ": the passive end hangs";
      }
      if (violent_ || a.datagram) continue;
      const bool unheard = a.passive.endings == 1 && a.passive.ending == EventKind::unreachable;
      if (a.active.established && !unheard) {
        EXPECT_TRUE(a.passive.established) << "attempt " << tag;
      }
      if (a.active.endings == 1 && a.requests == 1) {
        EXPECT_TRUE(a.passive.over()) << "attempt " << tag << ": only the active end failed";
      }
      if (world_.lost() == 0) {
        EXPECT_TRUE(a.active.established && a.passive.established) << "attempt " << tag;
      }
    }
  }

  void end_all() {
    for (const auto& [tag, attempt] : attempts_) {
      for (Side* s : {&attempt->active, &attempt->passive}) {
        if (s->host->dead || s->id == ConnectionId{} || s->over()) continue;
        if (s->established) {
          const auto ok = s->host->cm().disconnect(s->id, {}, world_.now());
          EXPECT_TRUE(ok.ok()) << ok.error().message;
        } else {
          destroy(*attempt, *s);
        }
      }
    }
  }

  void check_endings() {
    for (const auto& [tag, attempt] : attempts_) {
      for (const Side* s : {&attempt->active, &attempt->passive}) {
        if (s->host->dead || s->id == ConnectionId{} || s->destroyed) continue;
        EXPECT_EQ(s->endings, 1u) << "attempt " << tag;
        if (s->ending == EventKind::disconnected) {
          EXPECT_TRUE(s->timewait_over) << "attempt " << tag;
        }
      }
    }
  }

  void check_nothing_is_left() {
    for (CmHost* host : hosts_) {
      if (host->dead) continue;
      EXPECT_EQ(host->cm().connections(), 0u);
      EXPECT_EQ(host->cm().answers(), 0u);
      EXPECT_EQ(host->cm().next_deadline(), kNever);
    }
  }

  /// Nothing holds a place in a backlog either.
  void check_it_still_works() {
    if (hosts_[0]->dead || hosts_[1]->dead) return;
    world_.link = {};
    violent_ = false;
    attempts_.clear();
    by_id_.clear();
    for (int i = 0; i < 2; ++i) world_.after(i * 20min, [this] { attempt(); });
    world_.run_until(world_.now() + kPatience);
    for (const auto& [tag, a] : attempts_) EXPECT_TRUE(a->active.established) << tag;
  }

  CmWorld world_;
  std::array<CmHost*, 2> hosts_{};
  bool violent_ = false;  // programs don't only connect
  std::uint32_t next_tag_ = 1;
  std::map<std::uint32_t, std::unique_ptr<Attempt>> attempts_;
  std::map<std::pair<CmHost*, ConnectionId>, std::pair<Attempt*, Side*>> by_id_;
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(CmProperty, RandomProgramsOverRandomNetworks) {
  const std::uint64_t first = setting("SEED", 1);
  const std::uint64_t seeds = setting("SEEDS", first == 1 ? 20000 : 1);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    Program{seed}.run();
    if (HasFailure()) {
      GTEST_FAIL() << "replay: SEED=" << seed << " SEEDS=1 " << testing::internal::GetArgvs()[0]
                   << " --gtest_filter=CmProperty.*";
    }
  }
}

}  // namespace
}  // namespace verbena::sim
