#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/key_table.h"
#include "engine/work_request.h"

namespace verbena::engine {

/// The segments of bytes [offset, offset + length) of a scatter or gather list. False: a key
/// is wrong, the range is outside its region, or `access` isn't granted (IBA 10.6.3).
[[nodiscard]] bool resolve(const KeyTable& keys, PdId pd, std::span<const Sge> sges,
                           std::uint32_t offset, std::uint32_t length, unsigned access,
                           std::vector<Segment>& out);

}  // namespace verbena::engine
