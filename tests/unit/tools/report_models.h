#pragma once

// Models to make pages of: what a lossy conversation looks like, without running one.

#include <cstdint>
#include <random>
#include <string>

#include "packet/packet.h"
#include "tools/report/model.h"

namespace verbena::report::testing {

using packet::Opcode;

/// Builds a conversation event by event.
class ModelBuilder {
 public:
  explicit ModelBuilder(std::uint64_t seed) : dice_{seed} {}

  std::uint32_t conversation(std::uint32_t left, std::uint32_t right, const std::string& program) {
    const auto number = static_cast<std::uint32_t>(model.conversations.size());
    Conversation c;
    c.left = {left, program + " 4711", "vb_lo", "::ffff:127.0.0.1", true};
    c.right = {right, program + " 4710", "vb_lo", "::ffff:127.0.0.1", true};
    c.type = "RC";
    c.mtu = 1024;
    model.conversations.push_back(c);
    return number;
  }

  Event& event(EventKind kind, std::uint32_t conversation, Side side, std::string what) {
    Event e;
    e.kind = kind;
    e.side = side;
    e.conversation = conversation;
    e.time = now;
    e.what = std::move(what);
    model.events.push_back(std::move(e));
    return model.events.back();
  }

  Event& packet(std::uint32_t conversation, Side side, Opcode opcode, std::uint32_t psn,
                std::uint32_t bytes, std::uint8_t syndrome = 0x1f) {
    const packet::OpcodeInfo& info = packet::info_of(opcode);
    packet::Packet p;
    p.bth.opcode = opcode;
    p.bth.psn = Psn{psn};
    p.bth.ack_request = info.last && info.is_request();
    p.bth.destination = Qpn{model.conversations[conversation].end(other(side)).qpn};
    p.reth = {0x7f0000001000, Key{0x1234}, 4096};
    p.aeth = {packet::Syndrome{syndrome}, psn / 4};
    // The service is the conversation's.
    Event& e = event(EventKind::packet, conversation, side,
                     std::string{info.name.substr(info.name.find(' ') + 1)});
    e.headers.resize(packet::header_size(opcode));
    packet::encode_headers(p, e.headers);
    e.opcode = static_cast<std::uint8_t>(opcode);
    e.psn = psn;
    e.bytes = bytes;
    e.flags.ack_request = p.bth.ack_request;
    e.flags.response = info.is_response();
    e.arrived = now + 4'000 + static_cast<Time>(dice_() % 3'000);
    return e;
  }

  std::uint32_t request(std::uint32_t conversation, std::string op, std::uint64_t bytes) {
    Request r;
    r.conversation = conversation;
    r.wr_id = std::to_string(model.requests.size() + 1);
    r.op = std::move(op);
    r.bytes = bytes;
    r.posted = now;
    r.packets = 4;
    model.requests.push_back(r);
    return static_cast<std::uint32_t>(model.requests.size() - 1);
  }

  void wait(Time t) { now += t; }

  Model model;
  Time now = 0;

 private:
  std::mt19937_64 dice_;
};

inline void add_states(ModelBuilder& b, std::uint32_t c) {
  for (const Side side : {Side::left, Side::right}) {
    for (const char* change : {"RESET → INIT", "INIT → RTR", "RTR → RTS"}) {
      b.event(EventKind::state, c, side, change);
      b.wait(12'000);
    }
  }
}

/// A WRITE of four packets, of which the one at `lost` is lost (4: none), and its acknowledgement.
inline void add_write(ModelBuilder& b, std::uint32_t c, std::uint32_t psn, std::uint32_t lost) {
  const std::uint32_t r = b.request(c, "RDMA_WRITE", 4096);
  Event& post = b.event(EventKind::post_send, c, Side::left, "RDMA_WRITE");
  post.bytes = 4096;
  post.request = r;
  post.note = b.model.requests[r].wr_id;
  b.wait(2'000);
  b.model.requests[r].first_sent = b.now;
  b.model.requests[r].waiting = 2'000;
  constexpr Opcode kOpcodes[] = {Opcode::rc_write_first, Opcode::rc_write_middle,
                                 Opcode::rc_write_middle, Opcode::rc_write_last};
  const auto send = [&](std::uint32_t from, bool again) {
    for (std::uint32_t i = from; i < 4; ++i) {
      Event& e = b.packet(c, Side::left, kOpcodes[i], psn + i, 1024);
      e.request = r;
      e.flags.again = again;
      if (i == lost && !again) {
        e.flags.lost = true;
        e.arrived = kNever;
        e.note = "drop";
      }
      e.flags.not_taken = !again && i > lost;
      b.model.requests[r].last_sent = b.now;
      b.wait(700);
    }
  };
  send(0, false);
  if (lost < 4) {
    b.wait(5'000);
    Event& nak = b.packet(c, Side::right, Opcode::rc_acknowledge, psn + lost, 0, 0x60);
    nak.flags.nak = true;
    nak.request = r;
    b.wait(6'000);
    Event& retry = b.event(EventKind::retry, c, Side::left, "sequence_nak");
    retry.psn = psn + lost;
    retry.request = r;
    b.wait(500);
    send(lost, true);
    b.model.requests[r].packets_again = 4 - lost;
    b.model.requests[r].repeating = 21'000;
  }
  b.wait(5'000);
  b.packet(c, Side::right, Opcode::rc_acknowledge, psn + 3, 0).request = r;
  b.wait(6'500);
  Event& completion = b.event(EventKind::completion, c, Side::left, "SUCCESS");
  completion.request = r;
  completion.bytes = 4096;
  completion.note = b.model.requests[r].wr_id;
  b.model.requests[r].completed = b.now;
  b.model.requests[r].status = "SUCCESS";
  b.model.requests[r].on_the_wire =
      b.now - b.model.requests[r].posted - 2'000 - b.model.requests[r].repeating;
}

/// `writes` WRITEs on each of `conversations`, every seventh with a loss.
inline Model lossy_model(std::uint32_t conversations, std::uint32_t writes) {
  ModelBuilder b{7};
  for (std::uint32_t c = 0; c < conversations; ++c) {
    b.conversation(0x1a2 + 2 * c, 0x1a3 + 2 * c, "ib_write_bw");
    add_states(b, c);
  }
  for (std::uint32_t n = 0; n < writes; ++n) {
    for (std::uint32_t c = 0; c < conversations; ++c) {
      add_write(b, c, 100 + 4 * n, n % 7 == 3 ? n % 4 : 4);
      b.wait(n % 7 == 4 ? 400'000 : 3'000);
    }
  }
  b.model.sources.push_back({"out.jsonl", "debian", 0, false});
  return std::move(b.model);
}

}  // namespace verbena::report::testing
