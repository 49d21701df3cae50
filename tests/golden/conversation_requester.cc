// Our requester in the place of the recorded one.
//
// The sink is the pacemaker: it takes one frame where the recording has one of the kernel's, so
// that ours and the kernel's requester stand at the same place when an answer arrives, whatever
// the machines' speeds were. The clock is the replay's own: it moves by a microsecond with each
// packet, by the RNR timer after an RNR NAK, and to the engine's deadline where the kernel's
// timer expired.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <stdexcept>

#include "engine/transport_timer.h"
#include "engine/work_request.h"
#include "tests/golden/conversation_host.h"
#include "tests/golden/conversation_replay.h"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;
using engine::SendKind;
using packet::Kind;
using packet::Packet;
using packet::Syndrome;

constexpr Duration kRnrDelay = 10'240us;                      // timer code 20
constexpr Duration kTimeout = engine::transport_timeout(14);  // the recorded programs'
constexpr std::uint8_t kMaxRdAtomic = 4;
constexpr std::uint64_t kTooMany = 1000;  // packets for any of these conversations

SendKind kind_of(const Message& m) {
  switch (m.kind()) {
    case Kind::send:
      return m.last.info().ieth        ? SendKind::send_invalidate
             : m.last.info().immediate ? SendKind::send_immediate
                                       : SendKind::send;
    case Kind::write:
      return m.last.info().immediate ? SendKind::write_immediate : SendKind::write;
    case Kind::read_request:
      return SendKind::read;
    case Kind::compare_swap:
      return SendKind::compare_swap;
    case Kind::fetch_add:
      return SendKind::fetch_add;
    default:
      throw std::runtime_error{"no request is like " + std::string{m.first.info().name}};
  }
}

/// Every message has its own piece of the region: SENDs and WRITEs with the recorded bytes, so
/// that it doesn't matter which of them the kernel's program overwrote by a READ meanwhile.
std::vector<std::uint8_t> memory_of(const std::vector<Message>& messages) {
  std::vector<std::uint8_t> out;
  for (const Message& m : messages) {
    out.insert(out.end(), m.payload.begin(), m.payload.end());
    out.resize(out.size() + m.length() - m.payload.size());
  }
  out.resize(out.size() + 1);  // a region isn't empty
  return out;
}

HostSetup setup_of(const Row& row, const Conversation& c, const std::vector<Message>& messages) {
  const Captured& request = c.frames.front().captured;
  return {.type = row.type,
          .address = request.source,
          .peer_address = request.destination,
          .qpn = c.story.requester,
          .peer_qpn = messages.front().first.bth.destination,
          .sq_psn = c.story.psn,
          .rq_psn = Psn{0x2000},
          .key = Key{0x1234},
          .iova = 0x10000,
          .memory = memory_of(messages),
          .region_access = engine::Access::kLocalWrite,
          .mtu = row.mtu,
          .timeout = 14,
          .retry_count = row.retry_count,
          .rnr_retry = row.rnr_retry,
          .max_rd_atomic = kMaxRdAtomic};
}

class RequesterReplay {
 public:
  RequesterReplay(const Row& row, const Conversation& c)
      : row_{row}, c_{c}, messages_{c.messages(row.mtu)}, host_{setup_of(row, c, messages_)} {}

  void run() {
    if (!post()) return;
    for (const Frame& f : c_.frames) {
      f.from_requester ? kernel_sent(f) : kernel_answered(f);
      if (testing::Test::HasFatalFailure() || mismatch_) return;
    }
    finish();
    if (!mismatch_) expect_end();
  }

 private:
  [[nodiscard]] bool post() {
    std::size_t offset = 0;
    for (const Message& m : messages_) {
      const std::array sges{host_.sge(offset, m.length())};
      offset += m.length();
      const std::uint64_t wr_id = ++posted_;
      const bool atomic = m.first.info().atomic_eth;
      const engine::SendRequest r{
          .wr_id = wr_id,
          .kind = kind_of(m),
          .signaled = true,
          .solicited = m.last.bth.solicited,
          .fence = wr_id == row_.fenced,
          .immediate = m.last.immediate,
          .remote_address = atomic ? m.first.atomic_eth.address : m.first.reth.address,
          .rkey = atomic ? m.first.atomic_eth.rkey : m.first.reth.rkey,
          .sges = sges,
          .invalidate = m.last.ieth.rkey,
          .atomic = {.compare = m.first.atomic_eth.compare,
                     .swap_or_add = m.first.atomic_eth.swap_or_add},
          .destination = {
              .flow = host_.flow(), .qpn = m.first.bth.destination, .qkey = m.first.deth.qkey}};
      if (host_.rnic().post_send(host_.qp(), r) != engine::PostResult::posted) {
        ADD_FAILURE() << "post_send of request " << wr_id;
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool failed() { return host_.qp().state.load() == engine::QpState::error; }

  [[nodiscard]] std::optional<Host::Bytes> pull() {
    now_ += 1us;
    auto sent = host_.work(now_, 1);
    if (sent.empty()) return std::nullopt;
    return with_kernels_migration(std::move(sent.front()));
  }

  /// A frame of ours, as far as the window and the kernel's timer let us have one.
  [[nodiscard]] std::optional<Host::Bytes> pull_patiently() {
    auto ours = pull();
    if (!ours && acknowledge_extra_request()) ours = pull();
    while (!ours && row_.times_out && !failed()) {
      now_ = std::max(now_, host_.rnic().next_deadline());
      ours = pull();
    }
    return ours;
  }

  // ---- the kernel's requests

  void kernel_sent(const Frame& f) {
    const bool lost = is_lost(row_.responder_loses, ++arrived_there_);
    if (failed()) {
      // Under way already, or else the responder would answer it.
      if (host_.wants_to_send(now_) || answer_follows(f)) mismatch(both_sides(&f, {}));
      return;
    }
    if (distance(f.packet.bth.psn, answered_) < 0) {
      ++redundant_;
      return;
    }
    if (go_back_ && f.packet.bth.psn != *go_back_) return;  // under way when the answer came
    go_back_.reset();

    catch_up(f, lost);
  }

  [[nodiscard]] bool answer_follows(const Frame& f) const {
    return std::any_of(c_.frames.begin() + static_cast<std::ptrdiff_t>(f.number), c_.frames.end(),
                       [](const Frame& later) { return !later.from_requester; });
  }

  /// Ours sends until it has got as far as the kernel with `f`, or its window closes.
  void catch_up(const Frame& f, bool lost) {
    const Psn end = f.packet.bth.psn + packets_of(f.packet);
    while (!mismatch_ && (due_ || row_.times_out || distance(end, sent_to_) > 0)) {
      const auto ours = pull_patiently();
      if (!ours) return;
      const Packet p = parsed(*ours);
      const bool now = p.bth.psn == f.packet.bth.psn;
      accept(*ours, now ? &f : kernels_request(p), now && lost);
      if (row_.times_out) return;
      answer_skipped(p);
      release_held();
    }
  }

  /// Ours must be the kernel's packet with this PSN, and come where it has to.
  void accept(const Host::Bytes& ours, const Frame* kernel, bool lost) {
    const Packet p = parsed(ours);
    // What came in answer to an earlier asking needs no asking again.
    const Psn next = distance(answered_, sent_to_) > 0 ? answered_ : sent_to_;
    const bool in_order =
        p.bth.psn == due_.value_or(next) || (row_.times_out && p.bth.psn == answered_);
    if (kernel == nullptr || !in_order || !(same(kernel->packet, ours) || is_piece(p))) {
      mismatch(both_sides(kernel, ours));
    }
    due_.reset();
    note_sent(ours, kernel, lost);
  }

  void mismatch(const std::string& text) {
    mismatch_ = true;
    ADD_FAILURE() << text;
  }

  /// Table, "AckReq".
  [[nodiscard]] bool same(const Packet& kernel, const Host::Bytes& frame) const {
    const Packet ours = parsed(frame);
    if (kernel.bth.ack_request && !ours.bth.ack_request) return false;
    Packet like_kernel = ours;
    like_kernel.bth.ack_request = kernel.bth.ack_request;
    return encoded(like_kernel) == encoded(kernel);
  }

  /// The payload of the result lies in `frame`.
  static Packet parsed(const Host::Bytes& frame) {
    Host::Bytes with_icrc = frame;
    with_icrc.resize(frame.size() + packet::kIcrcSize);
    const auto result = packet::parse(with_icrc);
    const auto* p = std::get_if<Packet>(&result);
    if (p == nullptr) throw std::runtime_error{"we sent something malformed"};
    Packet out = *p;
    out.payload = std::span{frame}.subspan(packet::header_size(p->bth.opcode), p->payload.size());
    // The pad must be zeros, and nothing else may follow.
    if (encoded(out) != frame) throw std::runtime_error{"bad pad: " + text_of(frame)};
    return out;
  }

  static Host::Bytes encoded(const Packet& p) {
    Host::Bytes out(packet::frame_size(p.bth.opcode, p.payload.size()));
    packet::encode(p, out);
    return out;
  }

  [[nodiscard]] std::uint32_t packets_of(const Packet& p) const {
    return p.info().kind == Kind::read_request ? engine::packets_of(p.reth.length, row_.mtu) : 1;
  }

  void note_sent(const Host::Bytes& ours, const Frame* kernel, bool lost) {
    ++sent_;
    const Packet p = parsed(ours);
    sent_to_ = p.bth.psn + packets_of(p);
    if (distance(sent_to_, sent_end_) > 0) sent_end_ = sent_to_;
    if (lost) return;
    if (p.bth.psn == there_.expected) {
      there_.expected = sent_to_;
      if (p.info().last) ++there_.msn;
    }
    const bool extra = p.bth.ack_request && (kernel == nullptr || !kernel->packet.bth.ack_request);
    owed_ = extra && distance(p.bth.psn, there_.expected) < 0;
  }

  /// Table, "AckReq": the recorded responder was not asked, ours would have been. Used
  /// only when the window is closed otherwise.
  bool acknowledge_extra_request() {
    if (!owed_) return false;
    owed_ = false;
    Packet ack;
    ack.bth.opcode = packet::Opcode::rc_acknowledge;
    ack.bth.destination = c_.story.requester;
    ack.bth.psn = there_.expected.previous();
    ack.aeth = {Syndrome::ack(), there_.msn};
    host_.receive(encoded(ack), now_);
    return true;
  }

  // ---- the kernel's answers

  void kernel_answered(const Frame& f) {
    if (is_lost(row_.requester_loses, ++arrived_here_)) {
      ++lost_here_;
      return;
    }
    // Table, "window": nobody answers what we have not asked yet.
    const Psn psn = f.packet.bth.psn;
    const bool response = f.packet.info().kind != Kind::acknowledge;
    if (response && distance(psn, sent_end_) >= 0) {
      skipped_.insert(psn.value());
    } else if (!response && (!held_.empty() || distance(psn, sent_to_) >= 0)) {
      held_.push_back(&f);
    } else {
      feed(f);
    }
  }

  void release_held() {
    while (!held_.empty() && distance(held_.front()->packet.bth.psn, sent_to_) < 0) {
      feed(*held_.front());
      held_.pop_front();
    }
  }

  /// Responses that the kernel's requester got before ours has asked for them.
  void answer_skipped(const Packet& asked) {
    for (std::uint32_t i = 0; i < packets_of(asked); ++i) {
      const Psn psn = asked.bth.psn + i;
      if (skipped_.erase(psn.value()) != 0) feed_response(psn);
    }
  }

  /// The newest that was recorded.
  void feed_response(Psn psn) {
    const Frame* newest = nullptr;
    for (const Frame& f : c_.frames) {
      const bool response = !f.from_requester && f.packet.info().kind != Kind::acknowledge;
      if (response && f.packet.bth.psn == psn) newest = &f;
    }
    if (newest != nullptr) feed(*newest);
  }

  void feed(const Frame& f) {
    expect_fence();
    now_ += 1us;
    host_.receive(f.bytes(), now_);
    owed_ = false;
    note_answer(f.packet);
  }

  void note_answer(const Packet& p) {
    const bool response = p.info().kind != Kind::acknowledge;
    const auto type = p.info().aeth ? p.aeth.syndrome.type() : Syndrome::Type::ack;
    const bool positive = type == Syndrome::Type::ack;
    // It acknowledges all before this, as far as no response is missing.
    const Psn end = positive && !response ? p.bth.psn.next() : p.bth.psn;
    if (const Message* missing = missing_before(end)) {
      if (distance(missing->first_psn, answered_) > 0) answered_ = missing->first_psn;
      if (hole_ != answered_) due_ = go_back_ = hole_ = answered_;
      return;
    }
    const Psn behind = positive ? p.bth.psn.next() : p.bth.psn;
    if (distance(behind, answered_) > 0) answered_ = behind;
    if (positive) return;
    due_ = go_back_ = p.bth.psn;
    if (type == Syndrome::Type::rnr_nak && !failed()) {
      EXPECT_FALSE(host_.wants_to_send(now_ + kRnrDelay - 1ns)) << "before the RNR timer's end";
      now_ += kRnrDelay;
    }
  }

  /// A message whose response has not come, between what is answered and `end`.
  [[nodiscard]] const Message* missing_before(Psn end) const {
    for (const Message& m : messages_) {
      if (m.needs_response() && distance(m.first_psn + m.packets, answered_) > 0 &&
          distance(end, m.first_psn) > 0 && distance(end, answered_) > 0) {
        return &m;
      }
    }
    return nullptr;
  }

  /// IBA 10.8.3.3: a fenced request waits for the READs before it.
  void expect_fence() {
    if (row_.fenced == 0 || messages_.at(row_.fenced - 1).first_psn != sent_to_) return;
    EXPECT_FALSE(host_.wants_to_send(now_)) << "request " << row_.fenced << " is fenced";
  }

  // ---- after the recording

  void finish() {
    for (;;) {
      release_held();
      for (const auto& done : host_.poll_send()) polled_.push_back(done);
      if (failed() || polled_.size() >= messages_.size()) return;
      const auto ours = pull_patiently();
      if (failed()) continue;
      if (sent_ > kTooMany) {
        mismatch("there is no end");
        return;
      }
      if (!ours) {
        mismatch("nothing more to send, and " + std::to_string(messages_.size() - polled_.size()) +
                 " requests incomplete");
        return;
      }
      const Packet p = parsed(*ours);
      accept(*ours, kernels_request(p), false);
      if (mismatch_) return;
      for (std::uint32_t i = 0; i < packets_of(p); ++i) feed_response(p.bth.psn + i);
    }
  }

  /// The kernel's newest packet that has this PSN, or asks for the response that has.
  [[nodiscard]] const Frame* kernels_request(const Packet& p) const {
    const Frame* found = nullptr;
    for (const Frame& f : c_.frames) {
      if (!f.from_requester) continue;
      const auto at = distance(p.bth.psn, f.packet.bth.psn);
      if (at >= 0 && static_cast<std::uint32_t>(at) < packets_of(f.packet)) found = &f;
    }
    return found;
  }

  /// Table, "READs in pieces".
  [[nodiscard]] bool is_piece(const Packet& p) const {
    return std::ranges::any_of(messages_, [&](const Message& m) {
      if (!m.is_read() || !m.holds(p.bth.psn)) return false;
      const auto offset = static_cast<std::uint32_t>(distance(p.bth.psn, m.first_psn)) * row_.mtu;
      Packet whole = m.first;
      whole.bth.psn = p.bth.psn;
      whole.reth = {m.first.reth.address + offset, m.first.reth.rkey, p.reth.length};
      return encoded(whole) == encoded(p) && p.reth.length <= m.length() - offset;
    });
  }

  void expect_end() {
    EXPECT_EQ(host_.qp().state.load(), c_.story.requester_state);
    for (const auto& done : host_.poll_send()) polled_.push_back(done);
    expect_completions(polled_, c_.story.requester_polled);
    EXPECT_FALSE(host_.wants_to_send(now_));
    EXPECT_EQ(redundant_, row_.redundant) << "packets that the kernel repeated needlessly";
    if (row_.requester_loses != Losses{}) {
      EXPECT_EQ(lost_here_, c_.story.dropped);
    }
    if (row_.times_out) {
      expect_timeouts();
    } else {
      EXPECT_EQ(host_.rnic().counters().early_retransmits, 0u);
    }
    expect_memory();
  }

  /// Table, "early retransmission".
  void expect_timeouts() {
    const auto kernel = static_cast<std::uint64_t>(
        std::ranges::count_if(c_.frames, [](const Frame& f) { return f.from_requester; }));
    EXPECT_EQ(sent_, kernel + host_.rnic().counters().early_retransmits);
    EXPECT_EQ(host_.rnic().counters().timeouts, kernel);
    // Early tries buy no time. The replay's own microseconds come on top.
    const Duration took = now_ - kStart;
    EXPECT_GE(took, kTimeout * static_cast<std::int64_t>(kernel));
    EXPECT_LT(took, kTimeout * static_cast<std::int64_t>(kernel) + 1ms);
  }

  /// READs and atomics brought the recorded bytes home, and nothing else was touched.
  void expect_memory() {
    std::vector<std::uint8_t> expected;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const Message& m = messages_[i];
      const auto back = c_.returned(m);
      expected.insert(expected.end(), m.payload.begin(), m.payload.end());
      expected.insert(expected.end(), back.begin(), back.end());
      expected.resize(expected.size() + m.length() - m.payload.size() - back.size());
    }
    expected.resize(expected.size() + 1);
    EXPECT_TRUE(std::ranges::equal(host_.memory(), expected)) << "the requester's memory";
  }

  static constexpr Instant kStart{1s};

  const Row& row_;
  const Conversation& c_;
  std::vector<Message> messages_;
  Host host_;
  Instant now_ = kStart;
  std::uint64_t posted_ = 0;
  std::vector<engine::Completion> polled_;
  bool mismatch_ = false;

  Psn sent_to_ = c_.story.psn;   // behind the packet that we sent last
  Psn sent_end_ = c_.story.psn;  // behind the newest that we ever sent
  Psn answered_ = c_.story.psn;  // all before is acknowledged
  std::uint64_t sent_ = 0;
  std::size_t redundant_ = 0;
  std::optional<Psn> hole_;          // a response is missing here
  std::optional<Psn> due_;           // where the last answer sends us
  std::optional<Psn> go_back_;       // where the last answer sends the kernel
  std::deque<const Frame*> held_;    // answers to what we have not sent yet
  std::set<std::uint32_t> skipped_;  // PSNs of responses to what we have not asked yet
  std::size_t arrived_there_ = 0;
  std::size_t arrived_here_ = 0;
  std::size_t lost_here_ = 0;

  /// What the recorded responder would have had of our packets.
  struct {
    Psn expected;
    std::uint32_t msn = 0;
  } there_{c_.story.psn};
  bool owed_ = false;  // it would have acknowledged them
};

}  // namespace

void replay_requester(const Row& row, const Conversation& c) {
  try {
    RequesterReplay{row, c}.run();
  } catch (const std::runtime_error& e) {
    ADD_FAILURE() << e.what();
  }
}

}  // namespace verbena::test
