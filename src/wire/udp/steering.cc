#include "wire/udp/steering.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/numbers.h"
#include "packet/cm_steering.h"
#include "system/kernel_calls.h"

namespace verbena::wire {
namespace {

constexpr std::uint32_t kByHash = UINT32_MAX;  // no group has so many sockets
constexpr std::size_t kIndexOffset = 2;
constexpr std::size_t kRoundOffset = 4;
constexpr std::size_t kNonceOffset = 8;

constexpr sock_filter statement(unsigned code, std::uint32_t k) {
  return {static_cast<std::uint16_t>(code), 0, 0, k};
}

/// Jumps count from the next instruction.
constexpr sock_filter if_equal(std::uint32_t k, std::uint8_t skip_then, std::uint8_t skip_else) {
  return {BPF_JMP | BPF_JEQ | BPF_K, skip_then, skip_else, k};
}

constexpr sock_filter skip(std::size_t count) {
  return statement(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(count));
}

template <unsigned Size>
constexpr sock_filter load(std::size_t offset) {
  return statement(BPF_LD | Size | BPF_ABS, static_cast<std::uint32_t>(offset));
}

constexpr std::uint32_t attribute(packet::CmAttribute a) { return static_cast<std::uint32_t>(a); }

constexpr std::size_t kPerRule = 2;

/// "If A is `value`, it's for `index`."
void add_rule(std::vector<sock_filter>& program, std::uint32_t value, std::uint16_t index) {
  program.push_back(if_equal(value, 0, 1));
  program.push_back(statement(BPF_RET | BPF_K, index));
}

}  // namespace

std::vector<sock_filter> steering_program(std::span<const registry::GroupMember> members,
                                          std::span<const ListenerRule> listeners) {
  using packet::CmAttribute;
  using packet::CmOffsets;
  // A load beyond the end of the datagram ends the program with 0: such a frame is dropped by
  // whoever gets it.
  std::vector<sock_filter> program{
      load<BPF_B>(0),
      if_equal(Probe::kOpcode, 0, 2),
      load<BPF_H>(kIndexOffset),
      statement(BPF_RET | BPF_A, 0),
      load<BPF_W>(4),  // a byte that is reserved, and the destination QPN
      statement(BPF_ALU | BPF_AND | BPF_K, Qpn::kMask),
      if_equal(packet::kGsiQpn.value(), 2, 0),
      statement(BPF_ALU | BPF_RSH | BPF_K, Qpn::kIndexBits),
      skip(0),  // to the slots
      // To QP 1.
      load<BPF_B>(CmOffsets::kManagementClass),
      if_equal(packet::kCmClass, 0, 9),
      load<BPF_H>(CmOffsets::kAttribute),
      if_equal(attribute(CmAttribute::req), 8, 0),
      if_equal(attribute(CmAttribute::sidr_req), 7, 0),
      if_equal(attribute(CmAttribute::sidr_rep), 0, 2),
      load<BPF_W>(CmOffsets::kRequestId),
      skip(1),
      load<BPF_W>(CmOffsets::kRemoteId),
      statement(BPF_ALU | BPF_RSH | BPF_K, packet::CommId::kIndexBits),
      skip(0),  // to the slots
      statement(BPF_RET | BPF_K, kByHash),
      // A request.
      load<BPF_W>(CmOffsets::kServiceId),
      if_equal(0, 1, 0),
      statement(BPF_RET | BPF_K, kByHash),
      load<BPF_W>(CmOffsets::kServiceId + 4),
  };
  constexpr std::size_t kQpnToSlots = 8;
  constexpr std::size_t kCommIdToSlots = 19;

  const auto fixed = program.size() + 2 + kPerRule * members.size();
  const auto room = fixed < BPF_MAXINSNS ? (BPF_MAXINSNS - fixed) / kPerRule : 0;
  for (const auto& rule : listeners.first(std::min(listeners.size(), room))) {
    add_rule(program, rule.service, rule.index);
  }
  program.push_back(statement(BPF_RET | BPF_K, kByHash));

  for (const auto jump : {kQpnToSlots, kCommIdToSlots}) {
    program[jump] = skip(program.size() - jump - 1);
  }
  for (const auto& member : members) add_rule(program, member.slot, member.place);
  program.push_back(statement(BPF_RET | BPF_K, kByHash));
  return program;
}

bool attach_steering(int fd, std::span<const registry::GroupMember> members,
                     std::span<const ListenerRule> listeners) {
  for (;;) {
    auto program = steering_program(members, listeners);
    sock_fprog attached;
    std::memset(&attached, 0, sizeof attached);  // its padding too: valgrind looks
    attached.len = static_cast<unsigned short>(program.size());
    attached.filter = program.data();
    if (kernel::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &attached, sizeof attached) ==
        0) {
      return true;
    }
    if (listeners.empty()) return false;
    listeners = listeners.first(listeners.size() / 2);
  }
}

std::array<std::uint8_t, Probe::kSize> Probe::encode() const {
  std::array<std::uint8_t, kSize> bytes{};
  bytes[0] = kOpcode;
  store_be16(&bytes[kIndexOffset], index);
  store_be32(&bytes[kRoundOffset], round);
  store_be64(&bytes[kNonceOffset], nonce);
  return bytes;
}

std::optional<Probe> Probe::decode(std::span<const std::uint8_t> bytes) {
  if (bytes.size() != kSize || bytes[0] != kOpcode) return std::nullopt;
  return Probe{.index = load_be16(&bytes[kIndexOffset]),
               .round = load_be32(&bytes[kRoundOffset]),
               .nonce = load_be64(&bytes[kNonceOffset])};
}

}  // namespace verbena::wire
