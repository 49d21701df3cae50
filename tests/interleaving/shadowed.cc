#include "tests/interleaving/shadowed.h"

#include "wire/shm/link.h"

// The real sources, with the names above.
#include "wire/shm/link.cc"  // NOLINT(bugprone-suspicious-include)
#include "wire/shm/ring.cc"  // NOLINT(bugprone-suspicious-include)

namespace verbena::interleaving {
namespace {

struct alignas(4096) Bytes {
  std::uint8_t bytes[wire::shm::Segment::kBytes];
};
std::array<Bytes, kThreads>& all_bytes() {
  static const auto bytes = std::make_unique<std::array<Bytes, kThreads>>();
  return *bytes;
}

}  // namespace

bool is_shared(const void* address) {
  const auto* const at = static_cast<const std::uint8_t*>(address);
  const auto* const first = all_bytes().front().bytes;
  return at >= first && at < first + sizeof all_bytes();
}

const void* line_of(const void* address) {
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(address) /
                                       wire::shm::kAlignment);
}

}  // namespace verbena::interleaving

namespace verbena::wire::shm {

// Memory instead of a memfd: a descriptor is the number of its thread.

Segment::~Segment() = default;
Segment::Segment(Segment&& other) noexcept : base_{::std::exchange(other.base_, nullptr)} {}
Segment& Segment::operator=(Segment&& other) noexcept {
  ::std::swap(base_, other.base_);
  return *this;
}
Result<Segment> Segment::map(const Fd& descriptor) {
  const auto thread = static_cast<::std::size_t>(descriptor.get() - interleaving::kBells);
  return Segment{interleaving::all_bytes().at(thread).bytes};
}
bool Segment::allocate(::std::size_t) const { return true; }

}  // namespace verbena::wire::shm
