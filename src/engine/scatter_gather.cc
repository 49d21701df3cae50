#include "engine/scatter_gather.h"

#include <algorithm>

namespace verbena::engine {

bool resolve(const KeyTable& keys, PdId pd, std::span<const Sge> sges, std::uint32_t offset,
             std::uint32_t length, unsigned access, std::vector<Segment>& out) {
  out.clear();
  for (const Sge& s : sges) {
    if (length == 0) break;
    if (offset >= s.length) {
      offset -= s.length;
      continue;
    }
    const std::uint32_t bytes = std::min(length, s.length - offset);
    const MemoryRegion* region = keys.find(s.lkey);
    const bool granted = region != nullptr && region->type == MemoryRegion::Type::region &&
                         region->pd == pd && (region->access & access) == access &&
                         region->contains(s.address, s.length);
    if (!granted) return false;
    out.push_back(region->segment(s.address + offset, bytes));
    length -= bytes;
    offset = 0;
  }
  return length == 0;
}

}  // namespace verbena::engine
