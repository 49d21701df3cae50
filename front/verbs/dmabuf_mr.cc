#include "front/verbs/dmabuf_mr.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/mr.h"
#include "system/dma_buf.h"

namespace verbena::front {

namespace {

/// As the kernel.
constexpr unsigned kDmaBufRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                IBV_ACCESS_RELAXED_ORDERING;

Status check(std::uint64_t offset, std::size_t length, std::uint64_t iova, int descriptor,
             unsigned access) {
  // Programs probe with -1: this answer says that there is support. Not for the log: all is well.
  if (descriptor == -1) return Error{EBADF, ""};
  if (Status open = check_descriptor(descriptor); !open) return open;
  if (const unsigned bits = access & ~kDmaBufRights; bits != 0) {
    return Error{EINVAL,
                 fmt::format("access {:#x}: {:#x} can't be had for a dma-buf", access, bits)};
  }
  if (Status s = check_access(access); !s) return s;
  if (length == 0) return Error{EINVAL, "length 0"};
  const auto in_page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) - 1;
  if (((offset ^ iova) & in_page) != 0) {
    return Error{EINVAL, fmt::format("offset {:#x} and iova {:#x} differ in their offset in a page",
                                     offset, iova)};
  }
  return Ok{};
}

}  // namespace

Result<ibv_mr*> register_dmabuf(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                                std::uint64_t iova, int descriptor, unsigned access) {
  if (Status s = check(offset, length, iova, descriptor, access); !s) return s.error();
  const unsigned rights = access & ~unsigned{IBV_ACCESS_RELAXED_ORDERING};
  engine::Segment memory{iova, length};
  std::shared_ptr<DmaBuf> mapping;
  if (!host::Nic::is_gpu_memory(iova)) {
    auto mapped = DmaBuf::map(descriptor, offset, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
    if (!mapped && mapped.error().code == EOPNOTSUPP) {
      return Error{EOPNOTSUPP, fmt::format("{}, and iova {:#x} names no memory of a GPU of this "
                                           "program: pass the device pointer as iova",
                                           mapped.error().message, iova)};
    }
    if (!mapped) return mapped.error();
    mapping = std::make_shared<DmaBuf>(std::move(*mapped));
    memory.address = mapping->address();
  }
  const Result<Mr*> mr = make_mr(pd, [&](host::Nic& nic, engine::PdId id) {
    return nic.register_memory(id, memory, iova, rights);
  });
  if (!mr) return mr.error();
  (*mr)->addr = reinterpret_cast<void*>(offset);  // as rdma-core
  (*mr)->dma_buf = std::move(mapping);
  return *mr;
}

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                                         std::uint64_t iova, int fd, int access) {
  if (!is_ours(pd)) {
    return real::call<"ibv_reg_dmabuf_mr", "IBVERBS_1.12">(ibv_reg_dmabuf_mr, pd, offset, length,
                                                           iova, fd, access);
  }
  return guarded("ibv_reg_dmabuf_mr", [&] {
    return register_dmabuf(pd, offset, length, iova, fd, static_cast<unsigned>(access));
  });
}
