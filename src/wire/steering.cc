#include "wire/steering.h"

#include <sys/socket.h>

#include "base/bytes.h"
#include "base/numbers.h"

namespace verbena::wire {
namespace {

constexpr std::uint32_t kByHash = UINT32_MAX;  // no group has so many sockets
constexpr std::size_t kIndexOffset = 2;
constexpr std::size_t kRoundOffset = 4;
constexpr std::size_t kNonceOffset = 8;

constexpr sock_filter statement(unsigned code, std::uint32_t k) {
  return {static_cast<std::uint16_t>(code), 0, 0, k};
}

/// Goes on with the next instruction if A equals `k`, else skips `otherwise` of them.
constexpr sock_filter unless_equal_skip(std::uint32_t k, std::uint8_t otherwise) {
  return {BPF_JMP | BPF_JEQ | BPF_K, 0, otherwise, k};
}

}  // namespace

std::vector<sock_filter> steering_program(std::span<const SteeringRule> rules) {
  std::vector<sock_filter> program{
      statement(BPF_LD | BPF_B | BPF_ABS, 0),
      unless_equal_skip(Probe::kOpcode, 2),
      statement(BPF_LD | BPF_H | BPF_ABS, kIndexOffset),
      statement(BPF_RET | BPF_A, 0),
      statement(BPF_LD | BPF_W | BPF_ABS, 4),  // reserved byte, destination QPN
      statement(BPF_ALU | BPF_AND | BPF_K, Qpn::kMask),
      statement(BPF_ALU | BPF_RSH | BPF_K, Qpn::kIndexBits),
  };
  for (const SteeringRule& rule : rules) {
    program.push_back(unless_equal_skip(rule.slot, 1));
    program.push_back(statement(BPF_RET | BPF_K, rule.index));
  }
  program.push_back(statement(BPF_RET | BPF_K, kByHash));
  return program;
}

bool attach_steering(int fd, std::span<const SteeringRule> rules) {
  auto program = steering_program(rules);
  const sock_fprog attached{static_cast<unsigned short>(program.size()), program.data()};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &attached, sizeof attached) == 0;
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
