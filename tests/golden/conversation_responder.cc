// Our responder in the place of the recorded one.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <stdexcept>

#include "base/bytes.h"
#include "tests/golden/conversation_host.h"
#include "tests/golden/conversation_replay.h"

namespace verbena::test {
namespace {

using packet::Kind;
using packet::Packet;
using packet::Syndrome;

/// README: the responders' min_rnr_timer was 20, 10.24 ms.
constexpr std::uint8_t kRnrTimer = 20;
constexpr std::uint32_t kQkey = 0x1111'1111;

HostSetup setup_of(const Row& row, const Conversation& c) {
  const Captured& request = c.frames.front().captured;
  HostSetup s{.type = row.type,
              .address = request.destination,
              .peer_address = request.source,
              .qpn = c.story.responder,
              .peer_qpn = c.story.requester,
              .sq_psn = Psn{0x2000},
              .rq_psn = c.story.psn,
              .key = c.story.rkey,
              .iova = c.story.address,
              .memory = responder_buffer(),
              .region_access = row.region_access,
              .qp_access = row.qp_access,
              .mtu = row.mtu,
              .min_rnr_timer = kRnrTimer,
              .max_dest_rd_atomic = row.max_dest_rd_atomic,
              .qkey = kQkey};
  if (row.window) s.window = c.messages(row.mtu).at(0).last.ieth.rkey;
  if (row.word) std::memcpy(s.memory.data(), &*row.word, sizeof *row.word);
  return s;
}

/// A frame of ours.
struct Answer {
  Host::Bytes frame;
  Psn newest;  // of the requests that it may answer
};

class ResponderReplay {
 public:
  ResponderReplay(const Row& row, const Conversation& c, Pace pace)
      : row_{row}, c_{c}, messages_{c.messages(row.mtu)}, pace_{pace}, host_{setup_of(row, c)} {}

  void run() {
    for (const Frame& f : c_.frames) {
      if (f.number == row_.receives_before) post_receives();
      f.from_requester ? request(f) : work(f);
    }
    work(c_.frames.back());
  }

  void compare() {
    compare_answers();
    expect_end();
  }

  [[nodiscard]] std::vector<Host::Bytes> answers() const {
    std::vector<Host::Bytes> out;
    for (const Answer& a : ours_) out.push_back(a.frame);
    return out;
  }

 private:
  void post_receives() {
    constexpr std::uint64_t kFirstWrId = 1000;
    for (std::size_t i = 0; i < c_.story.responder_polled.size() + row_.unused_receives; ++i) {
      const std::array sges{host_.sge(kReceiveOffset, row_.receive_length)};
      ASSERT_EQ(host_.rnic().post_receive(host_.qp(), {.wr_id = kFirstWrId + i, .sges = sges}),
                engine::PostResult::posted);
    }
  }

  /// The firewall of the responder's machine counted what arrived and dropped some of it,
  /// behind the bridge where the recording was made: so a dropped packet is in the recording,
  /// and which it was follows from the count.
  void request(const Frame& f) {
    if (is_lost(row_.responder_loses, ++arrived_)) {
      ++lost_;
      return;
    }
    if (distance(f.packet.bth.psn, newest_) > 0) newest_ = f.packet.bth.psn;
    note_restart(f.packet);
    note_superseded(f.packet.bth.psn);
    host_.receive(f.captured, time_of(f));
    if (pace_ == Pace::one_by_one) work(f);
  }

  static Instant time_of(const Frame& f) { return Instant{f.captured.time}; }

  void work(const Frame& f) {
    run_.clear();
    for (auto& sent : host_.work(time_of(f)))
      ours_.push_back({with_kernels_migration(std::move(sent)), newest_});
  }

  /// The requester went back before its first request could be answered.
  void note_superseded(Psn psn) {
    for (const Psn before : run_) {
      if (distance(before, psn) >= 0) superseded_.insert(before.value());
    }
    run_.push_back(psn);
  }

  /// A READ that is asked for again from its middle.
  void note_restart(const Packet& p) {
    if (p.info().kind != Kind::read_request) return;
    if (distance(p.bth.psn, asked_) >= 0) {
      asked_ = p.bth.psn.next();
      starts_.insert(p.bth.psn.value());
    } else if (!starts_.contains(p.bth.psn.value())) {
      restarts_.insert(p.bth.psn.value());
    }
  }

  void compare_answers() {
    std::size_t next = 0;
    for (const Frame& f : c_.frames) {
      if (f.from_requester) continue;
      const bool more = next < ours_.size();
      if (more && same(f, ours_[next])) {
        ++next;
      } else if (more && may_be_left_out(f.packet)) {
        continue;
      } else {
        ADD_FAILURE() << both_sides(&f, more ? ours_[next].frame : Host::Bytes{});
        return;
      }
    }
    for (; next < ours_.size(); ++next) ADD_FAILURE() << both_sides(nullptr, ours_[next].frame);
  }

  /// Table, "acknowledgements", "asked again". That an answer to something later follows, the
  /// caller has seen.
  [[nodiscard]] bool may_be_left_out(const Packet& kernel) const {
    const bool response = kernel.info().kind != Kind::acknowledge;
    return pace_ == Pace::in_runs &&
           (is_ack(kernel) || (response && superseded_.contains(kernel.bth.psn.value())));
  }

  [[nodiscard]] bool same(const Frame& kernel, const Answer& answer) const {
    const Host::Bytes& ours = answer.frame;
    Host::Bytes theirs{kernel.bytes().begin(), kernel.bytes().end()};
    if (row_.differs && kernel.packet.info().aeth &&
        kernel.packet.aeth.syndrome == row_.differs->kernel) {
      theirs[packet::Bth::kSize] = row_.differs->ours.value();
    }
    return theirs == ours || same_restart(kernel.packet, ours) ||
           same_but_overtaken(kernel.packet, answer) || same_but_newer(kernel.packet, answer);
  }

  /// Table, "acknowledgements": the same messages are complete, and of the next one we have
  /// packets that the kernel's responder had not seen yet when it answered.
  [[nodiscard]] bool same_but_newer(const Packet& kernel, const Answer& answer) const {
    if (pace_ != Pace::in_runs || !is_ack(kernel)) return false;
    Host::Bytes ours = answer.frame;
    ours.resize(ours.size() + packet::kIcrcSize);
    const auto parsed = packet::parse(ours);
    const auto* p = std::get_if<Packet>(&parsed);
    if (p == nullptr || !is_ack(*p) || p->aeth != kernel.aeth) return false;
    Packet like_kernel = *p;
    like_kernel.bth.psn = kernel.bth.psn;
    return like_kernel.bth == kernel.bth && distance(p->bth.psn, kernel.bth.psn) > 0 &&
           distance(p->bth.psn, answer.newest) <= 0;
  }

  /// Table, "READ, then WRITE".
  [[nodiscard]] bool same_but_overtaken(const Packet& kernel, const Answer& answer) const {
    if (pace_ != Pace::in_runs || kernel.info().kind != Kind::read_response) return false;
    const Message* read = nullptr;
    for (const Message& m : messages_) {
      if (m.is_read() && m.holds(kernel.bth.psn)) read = &m;
      const bool overtakes = read != nullptr && m.kind() == Kind::write &&
                             distance(answer.newest, m.first_psn) >= 0 &&
                             m.first.reth.address == read->first.reth.address &&
                             m.payload.size() >= read->length() && read->packets == 1;
      if (!overtakes) continue;
      Packet with_written = kernel;
      with_written.payload = std::span{m.payload}.first(read->length());
      Host::Bytes theirs(packet::frame_size(kernel.bth.opcode, read->length()));
      packet::encode(with_written, theirs);
      if (theirs == answer.frame) return true;
    }
    return false;
  }

  static bool is_ack(const Packet& p) {
    return p.info().kind == Kind::acknowledge && p.aeth.syndrome.type() == Syndrome::Type::ack;
  }

  /// Table, "READ again from its middle".
  [[nodiscard]] bool same_restart(const Packet& kernel, Host::Bytes ours) const {
    ours.resize(ours.size() + packet::kIcrcSize);
    const auto parsed = packet::parse(ours);
    const auto* p = std::get_if<Packet>(&parsed);
    if (p == nullptr || !restarts_.contains(kernel.bth.psn.value())) return false;
    Packet like_kernel = *p;
    like_kernel.bth.opcode = kernel.bth.opcode;
    return p->info().kind == Kind::read_response && p->info().first && !kernel.info().first &&
           p->info().last == kernel.info().last && like_kernel.bth == kernel.bth &&
           std::ranges::equal(p->payload, kernel.payload) &&
           (!kernel.info().aeth || p->aeth == kernel.aeth);
  }

  void expect_end() {
    EXPECT_EQ(host_.qp().state.load(), c_.story.responder_state);
    EXPECT_EQ(crc32(memory_with_kernels_grh()), c_.story.responder_crc) << "the responder's memory";
    if (row_.responder_loses != Losses{}) {
      EXPECT_EQ(lost_, c_.story.dropped);
    }

    std::vector<Polled> kernel = c_.story.responder_polled;
    if (row_.differs) kernel.at(0).status = row_.differs->receive;
    const auto done = host_.poll_receive();
    expect_completions(done, kernel);
    expect_last_packets(done);
    EXPECT_TRUE(host_.poll_send().empty());
  }

  /// Table, "GRH".
  [[nodiscard]] std::vector<std::uint8_t> memory_with_kernels_grh() const {
    std::vector<std::uint8_t> memory{host_.memory().begin(), host_.memory().end()};
    const auto identification = c_.frames.front().captured.identification;
    if (row_.type != engine::QpType::ud || c_.story.responder_polled.empty() || !identification) {
      return memory;
    }
    std::uint8_t* ip = &memory.at(kReceiveOffset + 20);
    EXPECT_EQ(load_be16(ip + 4), 0) << "the identification";
    store_be16(ip + 4, *identification);
    // RFC 1624: a field that was 0 adds itself to the sum.
    std::uint32_t sum = static_cast<std::uint16_t>(~load_be16(ip + 10)) + *identification;
    sum = (sum & 0xffff) + (sum >> 16);
    store_be16(ip + 10, static_cast<std::uint16_t>(~sum));
    return memory;
  }

  /// What NAME.txt doesn't tell of a receive, the last packet of its message does.
  void expect_last_packets(const std::vector<engine::Completion>& done) {
    std::vector<Packet> kernel;
    for (const Message& m : messages_) {
      const bool takes_receive = m.kind() == Kind::send || m.last.info().immediate;
      if (takes_receive) kernel.push_back(m.last);
    }
    for (std::size_t i = 0; i < std::min(done.size(), kernel.size()); ++i) {
      if (done[i].status != engine::CompletionStatus::success) continue;
      SCOPED_TRACE("wr_id " + std::to_string(done[i].wr_id));
      EXPECT_EQ(done[i].solicited, kernel[i].bth.solicited);
      EXPECT_EQ(done[i].has_invalidated, kernel[i].info().ieth);
      EXPECT_EQ(done[i].invalidated, kernel[i].ieth.rkey);
      EXPECT_EQ(done[i].has_grh, kernel[i].info().deth);
      EXPECT_EQ(done[i].source_qpn, kernel[i].deth.source);
    }
  }

  const Row& row_;
  const Conversation& c_;
  std::vector<Message> messages_;
  Pace pace_;
  Host host_;
  std::vector<Answer> ours_;
  Psn newest_ = c_.story.psn.previous();  // of what our responder got
  std::vector<Psn> run_;                  // requests since our responder could answer last
  std::set<std::uint32_t> superseded_;    // PSNs that one run asked for twice
  std::size_t arrived_ = 0;
  std::size_t lost_ = 0;
  Psn asked_ = c_.story.psn;          // behind the newest READ
  std::set<std::uint32_t> starts_;    // PSNs of READ requests
  std::set<std::uint32_t> restarts_;  // of those that begin inside another one
};

}  // namespace

void replay_responder(const Row& row, const Conversation& c, Pace pace) {
  try {
    ResponderReplay replay{row, c, pace};
    replay.run();
    replay.compare();
  } catch (const std::runtime_error& e) {
    ADD_FAILURE() << e.what();
  }
}

std::vector<Host::Bytes> answers_of_ours(const Row& row, const Conversation& c, Pace pace) {
  ResponderReplay replay{row, c, pace};
  replay.run();
  return replay.answers();
}

}  // namespace verbena::test
