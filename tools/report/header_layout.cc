#include "tools/report/header_layout.h"

#include <array>

#include "packet/bth.h"
#include "packet/mad.h"

namespace verbena::report {
namespace {

using enum Print;

constexpr Field kBth[] = {
    {"opcode", 0, 8, opcode},
    {"solicited event", 8, 1, flag},
    {"migrated", 9, 1, flag},
    {"pad", 10, 2, decimal},
    {"transport version", 12, 4, decimal},
    {"P_Key", 16, 16, hex},
    {"FECN", 32, 1, flag},
    {"BECN", 33, 1, flag},
    {"reserved", 34, 6, hex},
    {"destination QP", 40, 24, hex},
    {"acknowledge request", 64, 1, flag},
    {"reserved", 65, 7, hex},
    {"PSN", 72, 24, decimal},
};
constexpr Field kXrceth[] = {{"reserved", 0, 8, hex}, {"XRC SRQ", 8, 24, hex}};
constexpr Field kDeth[] = {
    {"Q_Key", 0, 32, hex}, {"reserved", 32, 8, hex}, {"source QP", 40, 24, hex}};
constexpr Field kFeth[] = {
    {"reserved", 0, 26, hex},
    {"selectivity", 26, 2, choice, "range|memory region|reserved|reserved"},
    {"reserved", 28, 2, hex},
    {"persistence", 30, 1, flag},
    {"global visibility", 31, 1, flag},
};
constexpr Field kReth[] = {
    {"virtual address", 0, 64, hex}, {"rkey", 64, 32, hex}, {"length", 96, 32, decimal}};
constexpr Field kAtomicEth[] = {
    {"virtual address", 0, 64, hex},
    {"rkey", 64, 32, hex},
    {"swap or add", 96, 64, hex},
    {"compare", 160, 64, hex},
};
constexpr Field kAeth[] = {
    {"reserved", 0, 1, hex},
    {"type", 1, 2, choice, "ACK|RNR NAK|reserved|NAK"},
    {"value", 3, 5, syndrome},
    {"MSN", 8, 24, decimal},
};
constexpr Field kAtomicAckEth[] = {{"original value", 0, 64, hex}};
constexpr Field kImmDt[] = {{"immediate data", 0, 32, bytes}};
constexpr Field kIeth[] = {{"rkey to invalidate", 0, 32, hex}};
constexpr Field kReserved[] = {{"reserved", 0, 128, bytes}};
constexpr Field kMad[] = {
    {"base version", 0, 8, decimal},   {"management class", 8, 8, hex},
    {"class version", 16, 8, decimal}, {"method", 24, 8, hex},
    {"status", 32, 16, hex},           {"class specific", 48, 16, hex},
    {"transaction", 64, 64, hex},      {"attribute", 128, 16, hex},
    {"reserved", 144, 16, hex},        {"attribute modifier", 160, 32, hex},
};

constexpr auto kHeaders = std::to_array<Header>({
    {"BTH", "base transport header", packet::Bth::kSize, kBth},
    {"XRCETH", "XRC extended transport header", packet::Xrceth::kSize, kXrceth},
    {"DETH", "datagram extended transport header", packet::Deth::kSize, kDeth},
    {"FETH", "FLUSH extended transport header", packet::Feth::kSize, kFeth},
    {"RETH", "RDMA extended transport header", packet::Reth::kSize, kReth},
    {"AtomicETH", "atomic extended transport header", packet::AtomicEth::kSize, kAtomicEth},
    {"AETH", "ACK extended transport header", packet::Aeth::kSize, kAeth},
    {"AtomicAckETH", "atomic ACK extended transport header", packet::AtomicAckEth::kSize,
     kAtomicAckEth},
    {"ImmDt", "immediate data", packet::kImmediateSize, kImmDt},
    {"IETH", "invalidate extended transport header", packet::Ieth::kSize, kIeth},
    {"reserved", "reserved bytes of a CNP", packet::Extensions::kReservedSize, kReserved},
    {"MAD", "management datagram", packet::MadHeader::kSize, kMad},
});

}  // namespace

std::span<const Header> headers() { return kHeaders; }

std::vector<std::string_view> headers_of(packet::Opcode opcode) {
  const packet::OpcodeInfo& info = packet::info_of(opcode);
  if (!info.known()) return {};
  std::vector<std::string_view> names{"BTH"};
  const auto add = [&names](bool there, std::string_view name) {
    if (there) names.push_back(name);
  };
  add(info.xrceth, "XRCETH");
  add(info.deth, "DETH");
  add(info.feth, "FETH");
  add(info.reth, "RETH");
  add(info.atomic_eth, "AtomicETH");
  add(info.aeth, "AETH");
  add(info.atomic_ack_eth, "AtomicAckETH");
  add(info.immediate, "ImmDt");
  add(info.ieth, "IETH");
  add(info.reserved, "reserved");
  return names;
}

std::string_view text(Print print) {
  switch (print) {
    case hex:
      return "hex";
    case decimal:
      return "decimal";
    case flag:
      return "flag";
    case Print::opcode:
      return "opcode";
    case choice:
      return "choice";
    case syndrome:
      return "syndrome";
    case bytes:
      return "bytes";
  }
  return "hex";
}

}  // namespace verbena::report
