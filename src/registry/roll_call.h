#pragma once

// Who is in the registry, and what each is doing: the processes of this user in this network
// namespace. Any process can ask; it needn't be in the registry itself.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace verbena::registry {

struct Presence {
  std::uint32_t slot = 0;
  int pid = 0;  // 0: not visible from here, or too busy to say
  /// PeerEvents::account() of it. nullopt: it is stopped, or too busy to answer in time.
  std::optional<std::string> account;
  /// Further parts of it, with more queue pairs; as many as came in time.
  std::vector<std::string> parts{};
};

enum class Detail : std::uint8_t {
  totals,
  queue_pairs,  // and what each queue pair does; processes of earlier versions leave it out
};

/// By slot. All are asked at once; the slowest are waited for as long as `patience` (a busy NIC
/// thread answers within some milliseconds). Who ends meanwhile is left out.
[[nodiscard]] std::vector<Presence> call_roll(Duration patience = std::chrono::milliseconds{300},
                                              Detail detail = Detail::totals);

}  // namespace verbena::registry
