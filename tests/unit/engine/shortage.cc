// In a file of its own: where the compiler sees through operator delete, it takes its free() for a
// mistake.

#include "tests/unit/engine/shortage.h"

#include <cstdlib>
#include <new>

namespace verbena::test {

thread_local Shortage shortage;

}  // namespace verbena::test

namespace {

void* allocate(std::size_t size, std::size_t alignment) {
  if (verbena::test::shortage.strikes()) throw std::bad_alloc{};
  void* p = alignment == 0
                ? std::malloc(size)
                : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc{};
  return p;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, 0); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return verbena::test::shortage.strikes() ? nullptr : std::malloc(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

// CompletionQueue takes its ring from here; the linker gives us its calls (--wrap).
extern "C" {
void* __real_calloc(std::size_t n, std::size_t size);   // NOLINT
void* __wrap_calloc(std::size_t n, std::size_t size) {  // NOLINT
  return verbena::test::shortage.strikes() ? nullptr : __real_calloc(n, size);
}
}
