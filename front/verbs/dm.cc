#include "front/verbs/dm.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "front/verbs/context.h"
#include "front/verbs/guarded.h"
#include "front/verbs/mr.h"
#include "front/verbs/newer_verbs.h"
#include "front/verbs/nic.h"

namespace verbena::front {

namespace {

std::atomic<std::size_t> allocated{0};
std::atomic<std::uint32_t> next_handle{1};

/// As devices have it: words, within what was allocated.
int check_copy(const DeviceMemory& memory, std::uint64_t offset, std::size_t length) {
  constexpr std::uint64_t kWord = 4;
  if (offset % kWord != 0 || length % kWord != 0) return EINVAL;
  if (offset > memory.length || length > memory.length - offset) return EFAULT;
  return 0;
}

int copy_to(ibv_dm* dm, std::uint64_t offset, const void* from, std::size_t length) {
  DeviceMemory& memory = *dm_of(dm).memory;
  const int code = check_copy(memory, offset, length);
  if (code == 0 && length > 0) std::memcpy(memory.bytes + offset, from, length);
  return code;
}

int copy_from(void* to, ibv_dm* dm, std::uint64_t offset, std::size_t length) {
  const DeviceMemory& memory = *dm_of(dm).memory;
  const int code = check_copy(memory, offset, length);
  if (code == 0 && length > 0) std::memcpy(to, memory.bytes + offset, length);
  return code;
}

Result<ibv_dm*> alloc(ibv_context* context, const ibv_alloc_dm_attr& attr) {
  constexpr std::uint32_t kMaxLogAlignment = 12;
  if (attr.comp_mask != 0) {
    return Error{EINVAL, fmt::format("comp_mask {:#x}: must be 0", attr.comp_mask)};
  }
  if (attr.length == 0 || attr.length > kMaxDeviceMemory || attr.log_align_req > kMaxLogAlignment) {
    return Error{EINVAL,
                 fmt::format("length {}, log_align_req {}: must be 1 to {} and at most {}",
                             attr.length, attr.log_align_req, kMaxDeviceMemory, kMaxLogAlignment)};
  }
  const std::size_t before = allocated.load();
  if (attr.length > kMaxDeviceMemory - std::min(before, kMaxDeviceMemory)) {
    return Error{ENOMEM, fmt::format("{} bytes: {} of the device's {} are in use", attr.length,
                                     before, kMaxDeviceMemory)};
  }
  auto memory = std::make_shared<DeviceMemory>(attr.length, std::size_t{1} << attr.log_align_req);
  return add_dm(context, std::move(memory), next_handle.fetch_add(1));
}

Result<ibv_mr*> register_dm(ibv_pd* pd, ibv_dm* ibdm, std::uint64_t offset, std::size_t length,
                            unsigned access) {
  if (const Status s = check_dm_access(access); !s) return s.error();
  DeviceMemory& memory = *dm_of(ibdm).memory;
  if (offset > memory.length || length > memory.length - offset) {
    return Error{EINVAL, fmt::format("offset {}, length {}: the device memory has {} bytes", offset,
                                     length, memory.length)};
  }
  const engine::Segment range{reinterpret_cast<std::uintptr_t>(memory.bytes) + offset, length};
  const Result<Mr*> mr = make_mr(pd, [&](host::Nic& nic, engine::PdId id) {
    constexpr unsigned kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                 IBV_ACCESS_ZERO_BASED | newer::kAccessFlushGlobal;
    return nic.register_memory(id, range, 0, access & kRights);
  });
  if (!mr) return mr.error();
  (*mr)->dm = dm_of(ibdm).memory;
  ++memory.regions;
  return *mr;
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t length_, std::size_t alignment)
    : length{length_}, bytes{nullptr} {
  // Whole pages of its own: a registration makes the pages that it touches present.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t whole = (length + page - 1) / page * page;
  bytes = static_cast<std::byte*>(std::aligned_alloc(std::max(page, alignment), whole));
  if (bytes == nullptr) throw std::bad_alloc{};
  std::memset(bytes, 0, whole);
  allocated += length;
}

DeviceMemory::~DeviceMemory() {
  allocated -= length;
  std::free(bytes);
}

Dm* add_dm(ibv_context* context, std::shared_ptr<DeviceMemory> memory, std::uint32_t handle) {
  auto dm = std::make_unique<Dm>();
  dm->context = context;
  dm->memcpy_to_dm = copy_to;
  dm->memcpy_from_dm = copy_from;
  dm->comp_mask = IBV_DM_MASK_HANDLE;
  dm->handle = handle;
  dm->memory = std::move(memory);
  const auto lock = lock_lists();
  context_of(context).objects.dms.insert(dm.get());
  return dm.release();
}

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) {
  return guarded("ibv_alloc_dm", [&] { return alloc(context, *attr); });
}

int free_dm(ibv_dm* dm) {
  return guarded_status("ibv_free_dm", [&] { return destroy(&dm_of(dm)); });
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length,
                  unsigned access) {
  return guarded("ibv_reg_dm_mr", [&] { return register_dm(pd, dm, offset, length, access); });
}

Status destroy(Dm* dm) {
  if (const unsigned regions = dm->memory->regions; regions > 0) {
    return Error{EBUSY, fmt::format("{} memory regions are still registered on it", regions)};
  }
  forget(dm);
  return Ok{};
}

void forget(Dm* dm) {
  {
    const auto lock = lock_lists();
    context_of(dm->context).objects.dms.erase(dm);
  }
  delete dm;
}

}  // namespace verbena::front
