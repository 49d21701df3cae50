#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace verbena::wire::test {

/// Runs a classic BPF program as the kernel does. nullopt: an instruction or a jump that the
/// kernel would refuse, or one that steering has no need of.
inline std::optional<std::uint32_t> run_bpf(std::span<const sock_filter> program,
                                            std::span<const std::uint8_t> packet) {
  std::uint32_t a = 0;
  for (std::size_t pc = 0; pc < program.size(); ++pc) {
    const sock_filter& i = program[pc];
    const auto load = [&](std::size_t size) {
      if (i.k + size > packet.size()) return false;
      a = 0;
      for (std::size_t byte = 0; byte < size; ++byte) a = a << 8 | packet[i.k + byte];
      return true;
    };
    switch (i.code) {
      case BPF_LD | BPF_B | BPF_ABS:
        if (!load(1)) return 0;
        break;
      case BPF_LD | BPF_H | BPF_ABS:
        if (!load(2)) return 0;
        break;
      case BPF_LD | BPF_W | BPF_ABS:
        if (!load(4)) return 0;
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        a &= i.k;
        break;
      case BPF_ALU | BPF_RSH | BPF_K:
        a >>= i.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        pc += a == i.k ? i.jt : i.jf;
        break;
      case BPF_JMP | BPF_JA:
        pc += i.k;
        break;
      case BPF_RET | BPF_A:
        return a;
      case BPF_RET | BPF_K:
        return i.k;
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace verbena::wire::test
