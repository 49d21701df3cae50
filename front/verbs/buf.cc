#include "front/verbs/buf.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/nic.h"
#include "front/verbs/real_descriptor.h"

namespace verbena::front {

namespace {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

struct Buf {
  const ibv_pd* pd;
  std::unique_ptr<void, FreeMemory> memory;
  std::size_t size;
};

/// By handle, which is the address of a Buf. Under lock_lists(). Never destroyed: threads of the
/// program may outlive our destructors.
std::unordered_map<const ibv_buf*, std::unique_ptr<Buf>>& bufs() {
  static auto& all = *new std::unordered_map<const ibv_buf*, std::unique_ptr<Buf>>;
  return all;
}

Result<void*> alloc(const ibv_pd* pd, std::size_t size, ibv_buf*& handle) {
  void* memory = nullptr;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (const int code = posix_memalign(&memory, page, size); code != 0) {
    return Error{code, fmt::format("no memory for {} bytes", size)};
  }
  std::unique_ptr<void, FreeMemory> owned{memory};
  auto buf = std::make_unique<Buf>(Buf{pd, std::move(owned), size});
  auto* const name = reinterpret_cast<ibv_buf*>(buf.get());
  const auto lock = lock_lists();
  bufs().emplace(name, std::move(buf));
  handle = name;
  return memory;
}

}  // namespace

bool is_our_buf(const ibv_buf* buf) {
  const auto lock = lock_lists();
  return bufs().contains(buf);
}

Status check_in_buf(const ibv_buf* handle, const ibv_pd* pd, const void* address,
                    std::size_t length) {
  const auto lock = lock_lists();
  const Buf& buf = *bufs().at(handle);
  if (pd != buf.pd) return Error{EINVAL, "the buffer was allocated with another domain"};
  const auto begin = reinterpret_cast<std::uintptr_t>(buf.memory.get());
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::uint64_t offset = at - begin;
  if (at < begin || offset > buf.size || length > buf.size - offset) {
    return Error{EINVAL, fmt::format("{} bytes at {}: the buffer has {} at {}", length, address,
                                     buf.size, buf.memory.get())};
  }
  return Ok{};
}

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT void* ibv_alloc_buf(ibv_pd* pd, std::size_t size, ibv_buf** buf) {
  if (!is_ours(pd)) {
    return real::call<"ibv_alloc_buf", "IBVERBS_1.17">(ibv_alloc_buf, pd, size, buf);
  }
  return guarded("ibv_alloc_buf", [&] { return alloc(pd, size, *buf); });
}

VERBENA_EXPORT void ibv_free_buf(ibv_buf* buf) {
  if (!is_our_buf(buf)) {
    real::call<"ibv_free_buf", "IBVERBS_1.17">(ibv_free_buf, buf);
    return;
  }
  const auto lock = lock_lists();
  bufs().erase(buf);
}

/// ENODATA is the verb's answer for memory that is no DMA-buf.
VERBENA_EXPORT int ibv_export_buf_dmabuf_fd(ibv_buf* buf) {
  if (!is_our_buf(buf)) {
    return real_descriptor<"ibv_export_buf_dmabuf_fd", "IBVERBS_1.18">(ibv_export_buf_dmabuf_fd,
                                                                       buf);
  }
  errno = ENODATA;
  return -1;
}
