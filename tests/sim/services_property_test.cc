// Random programs on shared receive queues (RC and XRC), UC and UD, over random networks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>

#include "tests/sim/arena.h"
#include "tests/sim/seeds.h"
#include "tests/sim/world.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Completion;
using engine::CompletionKind;
using engine::CompletionStatus;
using engine::EventKind;
using engine::PostResult;
using engine::QpType;
using engine::SendKind;

constexpr std::uint64_t kSeeds = 2000;
constexpr unsigned kAccess = Access::kLocalWrite | Access::kRemoteWrite;

/// A SEND or WRITE, with or without immediate.
struct Message {
  SendKind kind{};
  Range here{};
  Range there{};  // of a WRITE
  std::vector<std::uint8_t> data{};
  std::size_t queue = 0;  // XRC: which receive queue it names

  [[nodiscard]] bool takes_receive() const { return kind != SendKind::write; }
  [[nodiscard]] bool writes() const {
    return kind == SendKind::write || kind == SendKind::write_immediate;
  }
  [[nodiscard]] bool has_immediate() const {
    return kind == SendKind::send_immediate || kind == SendKind::write_immediate;
  }
};

constexpr std::array kKinds{SendKind::send, SendKind::send_immediate, SendKind::write,
                            SendKind::write_immediate};

packet::Immediate immediate_of(std::size_t n) {
  return {7, 7, static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)};
}

void fill(Chance& chance, Message& m, Arena& from, const Arena& to) {
  for (std::uint32_t i = 0; i < m.here.length; ++i) m.data.push_back(to.other_byte(chance));
  std::copy(m.data.begin(), m.data.end(), from.at(m.here).begin());
}

bool holds(Arena& arena, Range r, const std::vector<std::uint8_t>& data) {
  return std::equal(data.begin(), data.end(), arena.at(r).begin());
}

/// Nothing but what was there in the beginning, from byte `first` on.
bool untouched(Arena& arena, Range r, std::size_t first) {
  const auto bytes = arena.at(r).subspan(first);
  return std::all_of(bytes.begin(), bytes.end(), [&](std::uint8_t b) { return b == arena.fill(); });
}

// ---- shared receive queues

/// Several senders, each with a queue pair of its own at the receiver; these share receive queues.
class SharedReceives {
 public:
  explicit SharedReceives(std::uint64_t seed)
      : chance_{seed}, net_{seed + 1, random_link(chance_)}, xrc_{chance_.one_in(2)} {
    options_.mtu = static_cast<std::uint16_t>(256u << chance_.pick(3));
    options_.timeout = 12;
    options_.depth = 4 + chance_.pick(16);
    if (xrc_) {
      options_.type_a = QpType::xrc_send;
      options_.type_b = QpType::xrc_receive;
    }
    senders_.resize(2 + chance_.pick(3));
    make_queues();
    make_connections();
    plan();
  }

  void run() {
    ASSERT_TRUE(net_.run_until(
        [&] {
          step();
          return testing::Test::HasFatalFailure() || through();
        },
        120s))
        << "stuck";
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_TRUE(memory_.guards_intact());
    for (Receive& r : receives_) EXPECT_TRUE(r.done);
    for (Sender& s : senders_) {
      for (const Message& m : s.messages) {
        if (m.writes()) {
          EXPECT_TRUE(holds(memory_, m.there, m.data));
        }
      }
    }
  }

 private:
  struct Sender {
    End end;
    End peer;  // at the receiver
    std::unique_ptr<Arena> memory = std::make_unique<Arena>(0xaa);
    std::vector<Message> messages;
    std::size_t posted = 0;
    std::size_t completed = 0;
    std::size_t arrived = 0;  // all before it have, and those that take no receive with them
  };
  struct Queue {
    engine::SharedReceiveQueue* srq = nullptr;
    std::uint32_t limit = 0;  // armed; 0: not
    std::size_t told = 0;     // events that there must have been
  };
  struct Receive {
    std::size_t queue = 0;
    Range range{};
    bool posted = false;
    bool done = false;
  };

  void make_queues() {
    End first = make_end(net_.add_node(), options_, options_.type_b, true, 4096);
    queues_.push_back({.srq = first.srq});
    for (std::uint32_t i = 0; xrc_ && i < chance_.pick(3); ++i) {
      queues_.push_back({.srq = first.node->rnic()
                                    .create_srq({.pd = first.pd,
                                                 .depth = options_.depth,
                                                 .max_sge = options_.sges,
                                                 .xrc_cq = first.cq.get(),
                                                 .xrcd = first.xrcd})
                                    .value()});
    }
    senders_[0].peer = first;
    for (std::size_t i = 1; i < senders_.size(); ++i) {
      senders_[i].peer = make_sibling(first, options_);
    }
  }

  void make_connections() {
    for (Sender& s : senders_) {
      s.end = make_end(net_.add_node(), options_, options_.type_a, false);
      const Psn a{0xff'fff0 + chance_.pick(32)};
      const Psn b{0xff'fff0 + chance_.pick(32)};
      connect(s.end, s.peer, options_, a, b);
      connect(s.peer, s.end, options_, b, a);
    }
  }

  void plan() {
    const std::uint32_t longest = 3u * options_.mtu;
    for (Sender& s : senders_) {
      s.messages.resize(1 + chance_.pick(12));
      for (Message& m : s.messages) {
        m.kind = kKinds[chance_.pick(kKinds.size())];
        m.here = s.memory->take(chance_.pick(longest + 1));
        if (m.writes()) m.there = memory_.take(m.here.length);
        m.queue = chance_.pick(static_cast<std::uint32_t>(queues_.size()));
        if (m.takes_receive()) receives_.push_back({.queue = m.queue, .range = {}});
      }
    }
    std::shuffle(receives_.begin(), receives_.end(), net_.random());
    for (Receive& r : receives_) r.range = memory_.take(longest);
    memory_.expose(senders_[0].peer, kAccess);
    for (Sender& s : senders_) {
      s.memory->expose(s.end, 0);
      for (Message& m : s.messages) fill(chance_, m, *s.memory, memory_);
    }
  }

  void step() {
    look_at_limits();
    poll();
    post_receives();
    for (Sender& s : senders_) post_sends(s);
  }

  [[nodiscard]] bool through() const {
    return std::all_of(senders_.begin(), senders_.end(), [](const Sender& s) {
      return s.completed == s.messages.size() && s.end.qp->sq.head() == s.end.qp->sq.tail();
    });
  }

  /// Between two looks nobody posts, so a queue that is below its limit has fallen below it.
  void look_at_limits() {
    const auto& events = senders_[0].peer.node->events;
    for (Queue& q : queues_) {
      if (q.limit != 0 && q.srq->size() < q.limit) {
        q.limit = 0;
        ++q.told;
      }
      const auto seen = std::count_if(events.begin(), events.end(), [&](const engine::Event& e) {
        return e.kind == EventKind::srq_limit_reached && e.srq == q.srq;
      });
      ASSERT_EQ(static_cast<std::size_t>(seen), q.told);
    }
  }

  void post_receives() {
    // Some at a time, whatever queue has room: a message behind a full one must not starve.
    std::uint32_t some = chance_.one_in(4) ? 1 + chance_.pick(4) : 0;
    for (std::size_t i = 0; i < receives_.size() && some > 0; ++i) {
      Receive& r = receives_[i];
      if (r.posted) continue;
      const auto sges = memory_.split(chance_, r.range, 1 + chance_.pick(options_.sges));
      auto& srq = *queues_[r.queue].srq;
      r.posted = engine::Rnic::post_receive(srq, {.wr_id = i, .sges = sges}) == PostResult::posted;
      if (r.posted) --some;
    }
    Queue& q = queues_[chance_.pick(static_cast<std::uint32_t>(queues_.size()))];
    const auto size = static_cast<std::uint32_t>(q.srq->size());
    if (q.limit == 0 && size > 0 && chance_.one_in(8)) {
      q.limit = 1 + chance_.pick(size);
      ASSERT_TRUE(senders_[0].peer.node->rnic().set_srq_limit(*q.srq, q.limit).ok());
    }
  }

  void post_sends(Sender& s) {
    for (; s.posted < s.messages.size(); ++s.posted) {
      const Message& m = s.messages[s.posted];
      const auto sges = s.memory->split(chance_, m.here, 1 + chance_.pick(options_.sges));
      const auto result = s.end.send({.wr_id = s.posted,
                                      .kind = m.kind,
                                      .signaled = true,
                                      .immediate = immediate_of(s.posted),
                                      .remote_address = memory_.address_of(m.there),
                                      .rkey = memory_.region.key,
                                      .sges = sges,
                                      .xrc_srq = queues_[m.queue].srq->number});
      if (result == PostResult::queue_full) return;
      ASSERT_EQ(result, PostResult::posted);
    }
  }

  void poll() {
    for (Sender& s : senders_) {
      for (const Completion& c : s.end.poll()) {
        ASSERT_EQ(c.status, CompletionStatus::success);
        ASSERT_EQ(c.wr_id, s.completed++);
      }
    }
    for (const Completion& c : senders_[0].peer.poll()) take(c);
  }

  void take(const Completion& c) {
    ASSERT_EQ(c.status, CompletionStatus::success);
    const auto s = std::find_if(senders_.begin(), senders_.end(),
                                [&](const Sender& each) { return each.peer.qp->qpn == c.qpn; });
    ASSERT_NE(s, senders_.end());
    while (s->arrived < s->posted && !s->messages[s->arrived].takes_receive()) ++s->arrived;
    ASSERT_LT(s->arrived, s->posted) << "a receive completed that nothing was sent to";
    const Message& m = s->messages[s->arrived];
    ASSERT_LT(c.wr_id, receives_.size());
    Receive& r = receives_[c.wr_id];
    ASSERT_TRUE(r.posted && !r.done);
    r.done = true;
    if (xrc_) {
      ASSERT_EQ(r.queue, m.queue);
    }
    ASSERT_EQ(c.kind,
              m.writes() ? CompletionKind::receive_write_immediate : CompletionKind::receive);
    ASSERT_EQ(c.byte_count, m.data.size());
    ASSERT_EQ(c.has_immediate, m.has_immediate());
    if (c.has_immediate) {
      ASSERT_EQ(c.immediate, immediate_of(s->arrived));
    }
    ASSERT_TRUE(holds(memory_, m.writes() ? m.there : r.range, m.data));
    ASSERT_TRUE(untouched(memory_, r.range, m.writes() ? 0 : m.data.size()));
    ++s->arrived;
  }

  Chance chance_;
  World net_;
  bool xrc_;
  ConnectOptions options_;
  std::vector<Sender> senders_;
  std::vector<Queue> queues_;
  std::vector<Receive> receives_;
  Arena memory_{0xbb};
};

TEST(SharedReceivesProperty, ServeEveryQueuePairOnceAndInOrder) {
  each_seed(kSeeds, [](std::uint64_t seed) { SharedReceives{seed}.run(); });
}

// ---- UC and UD

enum class Net : std::uint8_t { faithful, lossy, wild };

Link link_of(Chance& chance, Net net) {
  if (net == Net::wild) return random_link(chance);
  Link link = faithful_link(chance);
  if (net == Net::lossy) link.loss_ppm = chance.pick(300'000);
  return link;
}

/// One sender, one receiver, no acknowledgements. What arrives says which message it is.
class Unreliable {
 public:
  Unreliable(std::uint64_t seed, QpType type)
      : chance_{seed},
        kind_{static_cast<Net>(chance_.pick(3))},
        net_{seed + 1, link_of(chance_, kind_)},
        options_{make_options(chance_, type)},
        c_{net_, options_},
        early_{chance_.one_in(2)},
        messages_(1 + chance_.pick(20)) {
    const bool ud = type == QpType::ud;
    const std::uint32_t longest = (ud ? 1u : 3u) * options_.mtu;
    for (Message& m : messages_) {
      m.kind = kKinds[chance_.pick(ud ? 2 : kKinds.size())];
      m.here = a_.take(kLabel + chance_.pick(longest - kLabel + 1));
      if (m.writes()) m.there = b_.take(m.here.length);
      receives_.push_back(b_.take(longest + (ud ? kGrh : 0u)));
    }
    a_.expose(c_.a, 0);
    b_.expose(c_.b, kAccess);
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      fill(chance_, messages_[i], a_, b_);
      messages_[i].data[0] = messages_[i].data[1] = static_cast<std::uint8_t>(i);
      std::copy_n(messages_[i].data.begin(), kLabel, a_.at(messages_[i].here).begin());
    }
  }

  void run() {
    (void)net_.run_until(
        [&] {
          step();
          return testing::Test::HasFatalFailure();
        },
        1s);
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_EQ(completed_, messages_.size()) << "sends complete without an answer";
    EXPECT_TRUE(b_.guards_intact());
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const Message& m = messages_[i];
      if (!m.writes()) continue;
      const std::vector<std::uint8_t> before(m.data.size(), b_.fill());
      EXPECT_NE(b_.effect(m.there, before, m.data), Effect::broken) << "WRITE " << i;
    }
    if (kind_ != Net::faithful || !early_) return;
    // Nothing was lost, and there was always a receive.
    const auto taken = std::count_if(messages_.begin(), messages_.end(),
                                     [](const Message& m) { return m.takes_receive(); });
    EXPECT_EQ(arrived_, static_cast<std::size_t>(taken));
    for (const Message& m : messages_) {
      if (m.writes()) {
        EXPECT_TRUE(holds(b_, m.there, m.data));
      }
    }
  }

 private:
  static constexpr std::uint32_t kLabel = 2;  // bytes that say which message it is
  static constexpr std::uint32_t kGrh = 40;

  static ConnectOptions make_options(Chance& chance, QpType type) {
    ConnectOptions o;
    o.mtu = static_cast<std::uint16_t>(256u << chance.pick(3));
    o.type_a = o.type_b = type;
    o.psn_a = Psn{0xff'fff0 + chance.pick(32)};
    return o;
  }
  [[nodiscard]] bool ud() const { return options_.type_a == QpType::ud; }

  void step() {
    for (const Completion& c : c_.a.poll()) {
      ASSERT_EQ(c.status, CompletionStatus::success);
      ASSERT_EQ(c.wr_id, completed_++);
    }
    for (const Completion& c : c_.b.poll()) take(c);
    for (; posted_receives_ < receives_.size(); ++posted_receives_) {
      if (!early_ && !chance_.one_in(3)) break;
      const auto sges =
          b_.split(chance_, receives_[posted_receives_], 1 + chance_.pick(options_.sges));
      ASSERT_EQ(c_.b.receive({.wr_id = posted_receives_, .sges = sges}), PostResult::posted);
    }
    if (posted_ < messages_.size()) post();
  }

  void post() {
    const Message& m = messages_[posted_];
    const auto sges = a_.split(chance_, m.here, 1 + chance_.pick(options_.sges));
    ASSERT_EQ(c_.a.send({.wr_id = posted_,
                         .kind = m.kind,
                         .signaled = true,
                         .immediate = immediate_of(posted_),
                         .remote_address = b_.address_of(m.there),
                         .rkey = b_.region.key,
                         .sges = sges,
                         .destination = {.flow = {.source = c_.a.node->address(),
                                                  .destination = c_.b.node->address(),
                                                  .source_port = 0xc000},
                                         .qpn = c_.b.qp->qpn,
                                         .qkey = 0x1111}}),
              PostResult::posted);
    ++posted_;
  }

  /// Which message a completion tells of.
  std::size_t index_of(const Completion& c) {
    if (c.has_immediate) return c.immediate[3];
    const auto bytes = b_.at(receives_[c.wr_id]).subspan(ud() ? kGrh : 0);
    EXPECT_EQ(bytes[0], bytes[1]);
    return bytes[0];
  }

  void take(const Completion& c) {
    ASSERT_EQ(c.status, CompletionStatus::success);
    ASSERT_EQ(c.wr_id, arrived_++) << "receives are used in the order of posting, none is lost";
    const std::size_t index = index_of(c);
    ASSERT_LT(index, posted_);
    const Message& m = messages_[index];
    ASSERT_TRUE(m.takes_receive());
    ASSERT_EQ(c.has_immediate, m.has_immediate());
    ASSERT_EQ(c.byte_count, m.data.size() + (ud() ? kGrh : 0));
    if (kind_ != Net::wild) {  // the network keeps the order: none comes twice, none is overtaken
      ASSERT_TRUE(!last_ || *last_ < index);
      last_ = index;
    }
    Range r = m.writes() ? m.there : receives_[c.wr_id];
    if (ud()) {
      check_header(c, r);
      r.offset += kGrh;
      r.length -= kGrh;
    }
    ASSERT_TRUE(holds(b_, r, m.data)) << "message " << index << " is not whole";
  }

  /// IBA A17.4.5.2: of an IPv4 datagram, 20 bytes of nothing and its header, checksum included.
  void check_header(const Completion& c, Range r) {
    ASSERT_TRUE(c.has_grh);
    ASSERT_EQ(c.source_qpn, c_.a.qp->qpn);
    const auto grh = b_.at(r).first(kGrh);
    const auto ip = grh.subspan(20);
    ASSERT_EQ(ip[0], 0x45);
    ASSERT_EQ(ip[9], 17);  // UDP
    const std::uint32_t payload = c.byte_count - kGrh;
    const std::uint32_t headers = 20 + 8 + 12 + 8 + (c.has_immediate ? 4 : 0);
    ASSERT_EQ(ip[2] * 256u + ip[3], headers + (payload + 3) / 4 * 4 + 4);
    ASSERT_EQ(ip[15], 1);  // 10.0.0.1 to 10.0.0.2
    ASSERT_EQ(ip[19], 2);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < 20; i += 2) sum += ip[i] * 256u + ip[i + 1];
    ASSERT_EQ((sum & 0xffff) + (sum >> 16), 0xffffu) << "the header's checksum";
  }

  Chance chance_;
  Net kind_;
  World net_;
  ConnectOptions options_;
  Connection c_;
  bool early_;  // receives are there before anything is sent
  std::vector<Message> messages_;
  std::vector<Range> receives_;
  Arena a_{0xaa};
  Arena b_{0xbb};
  std::size_t posted_ = 0;
  std::size_t posted_receives_ = 0;
  std::size_t completed_ = 0;
  std::size_t arrived_ = 0;
  std::optional<std::size_t> last_;
};

TEST(UnreliableProperty, UcMessagesArriveWholeOrNotAtAll) {
  each_seed(kSeeds, [](std::uint64_t seed) { Unreliable{seed, QpType::uc}.run(); });
}

TEST(UnreliableProperty, DatagramsArriveWholeWithTheirHeader) {
  each_seed(kSeeds, [](std::uint64_t seed) { Unreliable{seed, QpType::ud}.run(); });
}

}  // namespace
}  // namespace verbena::sim
