#include "tests/golden/conversation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>
#include <variant>

#include "engine/work_request.h"

#ifndef VERBENA_GOLDEN_DIR
#define VERBENA_GOLDEN_DIR "tests/golden"
#endif

namespace verbena::test {
namespace {

using engine::CompletionStatus;
using engine::QpState;

/// What stands behind `mark`, up to one of `ends`; nullopt: no such mark.
std::optional<std::string> text_after(const std::string& line, std::string_view mark,
                                      const char* ends) {
  const std::size_t at = line.find(mark);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + mark.size();
  return line.substr(begin, line.find_first_of(ends, begin) - begin);
}

std::uint64_t number_after(const std::string& line, std::string_view mark, int base = 0) {
  const auto text = text_after(line, mark, " ,;}\n");
  if (!text) throw std::runtime_error{"no \"" + std::string{mark} + "\" in: " + line};
  return std::strtoull(text->c_str(), nullptr, base);
}

std::uint32_t number32_after(const std::string& line, std::string_view mark, int base = 0) {
  return static_cast<std::uint32_t>(number_after(line, mark, base));
}

CompletionStatus status_of(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, CompletionStatus>, 8> kNames{{
      {"SUCCESS", CompletionStatus::success},
      {"LOC_LEN_ERR", CompletionStatus::local_length_error},
      {"LOC_QP_OP_ERR", CompletionStatus::local_qp_error},
      {"REM_INV_REQ_ERR", CompletionStatus::remote_invalid_request},
      {"REM_ACCESS_ERR", CompletionStatus::remote_access_error},
      {"REM_OP_ERR", CompletionStatus::remote_operation_error},
      {"RETRY_EXC_ERR", CompletionStatus::retry_exceeded},
      {"RNR_RETRY_EXC_ERR", CompletionStatus::rnr_retry_exceeded},
  }};
  for (const auto& [text, status] : kNames) {
    if (text == name) return status;
  }
  throw std::runtime_error{"unknown completion status " + name};
}

QpState state_of(const std::string& name) {
  for (const QpState s : {QpState::rts, QpState::error}) {
    if (engine::name_of(s) == name) return s;
  }
  throw std::runtime_error{"unknown queue pair state " + name};
}

Polled polled_of(const std::string& line) {
  Polled p;
  p.wr_id = number_after(line, "\"wr_id\": ");
  p.status = status_of(text_after(line, "\"status\": \"", "\"").value_or(""));
  if (p.status != CompletionStatus::success) return p;
  p.opcode = text_after(line, "\"opcode\": \"", "\"").value_or("");
  p.length = number32_after(line, "\"len\": ");
  constexpr std::uint32_t kWithImmediate = 2;  // IBV_WC_WITH_IMM
  if ((number_after(line, "\"flags\": ") & kWithImmediate) != 0) {
    // The program printed the bytes of the wire as a number of its little-endian machine.
    const std::uint32_t v = number32_after(line, "\"imm_or_rkey\": ");
    p.immediate =
        packet::Immediate{static_cast<std::uint8_t>(v), static_cast<std::uint8_t>(v >> 8),
                          static_cast<std::uint8_t>(v >> 16), static_cast<std::uint8_t>(v >> 24)};
  }
  return p;
}

Story read_story(const std::string& path) {
  std::ifstream in{path};
  std::string line;
  if (!std::getline(in, line)) throw std::runtime_error{"can't be read"};
  Story s;
  s.requester = Qpn{number32_after(line, "requester QP ")};
  s.responder = Qpn{number32_after(line, "responder QP ")};
  s.psn = Psn{number32_after(line, " psn ")};
  s.rkey = Key{number32_after(line, " rkey ")};
  s.address = number_after(line, " va ");
  while (std::getline(in, line)) {
    if (line.starts_with("  requester {")) s.requester_polled.push_back(polled_of(line));
    if (line.starts_with("  responder {")) s.responder_polled.push_back(polled_of(line));
    if (line.starts_with("  QP states: ")) {
      s.requester_state = state_of(text_after(line, ": requester ", ",").value_or(""));
      s.responder_state = state_of(text_after(line, ", responder ", ";").value_or(""));
      s.responder_crc = number32_after(line, "crc32 of all ", 16);
    }
    if (line.starts_with("  dropped by the receiver: ")) {
      s.dropped = number_after(line, "counter packets ");
    }
  }
  return s;
}

std::vector<Frame> read_frames(const std::string& path) {
  auto packets = read_pcap_file(path);
  if (!packets) throw std::runtime_error{packets.error().message};
  std::vector<Frame> frames;
  for (Captured& c : *packets) {
    Frame f;
    f.number = frames.size() + 1;
    // The requester speaks first.
    f.from_requester = frames.empty() || c.source == frames.front().captured.source;
    f.captured = std::move(c);
    auto parsed = packet::parse(f.captured.payload);
    auto* p = std::get_if<packet::Packet>(&parsed);
    if (p == nullptr) throw std::runtime_error{"packet " + std::to_string(f.number) + ": no parse"};
    f.packet = *p;
    frames.push_back(std::move(f));
  }
  return frames;
}

}  // namespace

std::uint32_t Message::length() const {
  switch (kind()) {
    case packet::Kind::read_request:
      return first.reth.length;
    case packet::Kind::compare_swap:
    case packet::Kind::fetch_add:
      return sizeof(std::uint64_t);
    default:
      return static_cast<std::uint32_t>(payload.size());
  }
}

std::optional<Conversation> Conversation::read(std::string_view name) {
  std::string base{VERBENA_GOLDEN_DIR "/"};
  base += name;
  try {
    return Conversation{std::string{name}, read_frames(base + ".pcap"), read_story(base + ".txt")};
  } catch (const std::runtime_error& e) {
    ADD_FAILURE() << base << ": " << e.what();
    return std::nullopt;
  }
}

std::vector<Message> Conversation::messages(std::uint16_t mtu) const {
  std::vector<Message> out;
  Psn next = story.psn;
  for (const Frame& f : frames) {
    const packet::Packet& p = f.packet;
    if (!f.from_requester || p.bth.psn != next) continue;
    if (p.info().first) out.push_back({.first = p, .last = p, .first_psn = next});
    Message& m = out.back();
    m.last = p;
    m.payload.insert(m.payload.end(), p.payload.begin(), p.payload.end());
    const std::uint32_t n = m.is_read() ? engine::packets_of(p.reth.length, mtu) : 1;
    m.packets += n;
    next = next + n;
  }
  return out;
}

std::vector<std::uint8_t> Conversation::returned(const Message& m) const {
  std::vector<std::uint8_t> out;
  Psn next = m.first_psn;
  for (const Frame& f : frames) {
    const packet::Packet& p = f.packet;
    if (f.from_requester || p.bth.psn != next || !m.holds(next)) continue;
    if (p.info().kind == packet::Kind::read_response) {
      out.insert(out.end(), p.payload.begin(), p.payload.end());
    } else if (p.info().kind == packet::Kind::atomic_acknowledge) {
      const auto* word = reinterpret_cast<const std::uint8_t*>(&p.atomic_ack_eth.original);
      out.insert(out.end(), word, word + sizeof(std::uint64_t));
    } else {
      continue;
    }
    next = next.next();
  }
  return out;
}

std::vector<std::uint8_t> responder_buffer() {
  std::vector<std::uint8_t> out(kResponderBuffer);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(3 + 7 * i);
  return out;
}

std::uint32_t crc32(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xffff'ffff;
  for (const std::uint8_t b : bytes) {
    crc ^= b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb8'8320u : 0);
  }
  return ~crc;
}

}  // namespace verbena::test
