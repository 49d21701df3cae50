#include "packet/print.h"

#include <utility>

#include "packet/line.h"

namespace verbena::packet {
namespace {

Line start_line(const Bth& bth, const OpcodeInfo& info) {
  if (info.known()) return Line{info.name};
  Line line{"unknown"};
  line.hex("opcode", static_cast<std::uint8_t>(bth.opcode), 2);
  return line;
}

void add_bth(Line& line, const Bth& bth) {
  line.hex("qp", bth.destination.value(), 6);
  line.hex("psn", bth.psn.value(), 6);
  if (bth.pkey != kDefaultPkey) line.hex("pkey", bth.pkey, 4);
  if (bth.solicited) line.word("solicited");
  if (bth.ack_request) line.word("ackreq");
  if (bth.fecn) line.word("fecn");
  if (bth.becn) line.word("becn");
}

void add_reth(Line& line, const Reth& reth) {
  line.hex("va", reth.address, 1);
  line.hex("rkey", reth.rkey.value(), 8);
  line.number("len", reth.length);
}

void add_deth(Line& line, const Deth& deth) {
  line.hex("from", deth.source.value(), 6);
  line.hex("qkey", deth.qkey, 8);
}

void add_feth(Line& line, const Feth& feth) {
  line.word(text(feth.selectivity));
  if (feth.global_visibility) line.word("global");
  if (feth.persistence) line.word("persistent");
}

void add_atomic_eth(Line& line, const AtomicEth& atomic, Kind kind) {
  line.hex("va", atomic.address, 1);
  line.hex("rkey", atomic.rkey.value(), 8);
  if (kind == Kind::compare_swap) line.hex("compare", atomic.compare, 1);
  line.hex(kind == Kind::compare_swap ? "swap" : "add", atomic.swap_or_add, 1);
}

bool carries_payload(Kind kind) {
  return kind == Kind::send || kind == Kind::write || kind == Kind::read_response ||
         kind == Kind::atomic_write;
}

}  // namespace

std::string text(const Packet& p) {
  const OpcodeInfo& info = p.info();
  Line line = start_line(p.bth, info);
  add_bth(line, p.bth);
  if (info.xrceth) line.hex("srq", p.xrceth.xrcsrq, 6);
  if (info.deth) add_deth(line, p.deth);
  if (info.feth) add_feth(line, p.feth);
  if (info.reth) add_reth(line, p.reth);
  if (info.atomic_eth) add_atomic_eth(line, p.atomic_eth, info.kind);
  if (info.aeth) {
    line.word(text(p.aeth.syndrome));
    line.number("msn", p.aeth.msn);
  }
  if (info.atomic_ack_eth) line.hex("original", p.atomic_ack_eth.original, 1);
  if (info.immediate) line.hex("imm", load_be32(p.immediate.data()), 8);
  if (info.ieth) line.hex("invalidate", p.ieth.rkey.value(), 8);
  if (carries_payload(info.kind) || !p.payload.empty()) line.number("payload", p.payload.size());
  return std::move(line).take();
}

std::string text(Syndrome s) {
  switch (s.type()) {
    case Syndrome::Type::ack: {
      Line line{"ack"};
      if (s.credits() != Syndrome::kNoCredits) line.number("credits", s.credits());
      return std::move(line).take();
    }
    case Syndrome::Type::rnr_nak: {
      Line line{"rnr nak"};
      line.number("timer", s.rnr_timer());
      return std::move(line).take();
    }
    case Syndrome::Type::nak: {
      Line line{"nak"};
      line.word(text(s.nak_code()));
      return std::move(line).take();
    }
    case Syndrome::Type::reserved:
      break;
  }
  Line line{"reserved"};
  line.hex("syndrome", s.value(), 2);
  return std::move(line).take();
}

std::string_view text(NakCode code) {
  switch (code) {
    case NakCode::psn_sequence_error:
      return "psn sequence error";
    case NakCode::invalid_request:
      return "invalid request";
    case NakCode::remote_access_error:
      return "remote access error";
    case NakCode::remote_operational_error:
      return "remote operational error";
    case NakCode::invalid_rd_request:
      return "invalid rd request";
  }
  return "reserved code";
}

std::string_view text(Selectivity selectivity) {
  switch (selectivity) {
    case Selectivity::range:
      return "range";
    case Selectivity::region:
      return "region";
  }
  return "reserved selectivity";
}

std::string_view text(Malformed reason) {
  switch (reason) {
    case Malformed::too_short:
      return "too short";
    case Malformed::bad_version:
      return "bad version";
    case Malformed::unknown_opcode:
      return "unknown opcode";
    case Malformed::bad_pad:
      return "bad pad";
  }
  return "unknown reason";
}

}  // namespace verbena::packet
