#pragma once

// Limits of this shell's processes, and of sockets.

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/check.h"

namespace verbena::doctor {

/// `others`: devices of hardware and of the kernel's rxe. They pin memory, ours doesn't.
[[nodiscard]] Finding judge_memlock(const rlimit& limit, const std::vector<std::string>& others);
[[nodiscard]] Finding judge_open_files(const rlimit& limit);

/// One of the two buffers of a UDP socket.
struct SocketBuffer {
  std::string id;       // rmem, wmem
  std::string setting;  // net.core.rmem_max
  std::uint64_t asked = 0;
  std::uint64_t got = 0;  // 0: no socket could be asked
  std::string effect;     // if it is smaller
  bool shown = true;      // this network namespace has the setting
};
[[nodiscard]] Finding judge_buffer(const SocketBuffer& buffer);

/// All of these, as they are here. `asked`: by the UDP wire; nullopt: it can't be said.
struct AskedBuffers {
  std::uint64_t receive = 0;
  std::uint64_t send = 0;
};
[[nodiscard]] Findings check_limits(const std::vector<std::string>& others,
                                    const std::optional<AskedBuffers>& asked);

}  // namespace verbena::doctor
