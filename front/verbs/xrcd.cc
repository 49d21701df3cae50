#include "front/verbs/xrcd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "front/verbs/context.h"
#include "front/verbs/guarded.h"
#include "front/verbs/nic.h"

namespace verbena::front {

namespace {

Status check(const ibv_xrcd_init_attr& attr) {
  constexpr std::uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (attr.comp_mask != kNeeded) {
    return Error{EINVAL, fmt::format("comp_mask {:#x}: must be FD | OFLAGS ({:#x})", attr.comp_mask,
                                     kNeeded)};
  }
  if (attr.fd == -1 && (attr.oflags & O_CREAT) == 0) {
    return Error{EINVAL, "fd -1 makes a new domain, so oflags needs O_CREAT"};
  }
  return Ok{};
}

Result<std::optional<XrcdFile>> file_of(int fd) {
  if (fd == -1) return std::optional<XrcdFile>{};
  struct stat s {};
  if (fstat(fd, &s) != 0) {
    const int code = errno;
    return Error{code, fmt::format("fd {}: {}", fd, std::strerror(code))};
  }
  return std::optional{XrcdFile{s.st_dev, s.st_ino}};
}

/// Under lock_lists(). nullptr: no handle of that file is open.
const Xrcd* find(const Context& context, const std::optional<XrcdFile>& file) {
  const auto& open = context.objects.xrcds;
  const auto found = std::find_if(open.begin(), open.end(), [&](const Xrcd* x) {
    return file && x->file == file && is_live(x->nic);
  });
  return found == open.end() ? nullptr : *found;
}

Result<ibv_xrcd*> open(Context& context, const ibv_xrcd_init_attr& attr) {
  if (const Status s = check(attr); !s) return s.error();
  const auto file = file_of(attr.fd);
  if (!file) return file.error();
  const Result<host::Nic*> nic = start_nic();
  if (!nic) return nic.error();
  auto xrcd = std::make_unique<Xrcd>();
  const Result<engine::XrcdId> fresh = (*nic)->open_xrcd();
  if (!fresh) return fresh.error();
  xrcd->context = &context.context;
  xrcd->nic = *nic;
  xrcd->file = *file;

  auto lock = lock_lists();
  const Xrcd* other = find(context, *file);
  // As the kernel answers them.
  const int refusal = other == nullptr && (attr.oflags & O_CREAT) == 0  ? EAGAIN
                      : other != nullptr && (attr.oflags & O_EXCL) != 0 ? EINVAL
                                                                        : 0;
  xrcd->id = other != nullptr ? other->id : *fresh;
  if (refusal == 0) context.objects.xrcds.insert(xrcd.get());
  lock.unlock();
  if (other != nullptr || refusal != 0) static_cast<void>((*nic)->close_xrcd(*fresh));
  if (refusal != 0) {
    return Error{refusal, fmt::format("fd {}, oflags {:#x}: {}", attr.fd, attr.oflags,
                                      refusal == EAGAIN ? "no domain of that file is open here"
                                                        : "a domain of that file is open already")};
  }
  return xrcd.release();
}

}  // namespace

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) {
  return guarded("ibv_open_xrcd", [&] { return open(context_of(context), *attr); });
}

ibv_qp* open_qp(ibv_context*, ibv_qp_open_attr* attr) {
  report("ibv_open_qp",
         Error{EOPNOTSUPP, fmt::format("qp {:#x}: queue pairs can't be shared between processes; "
                                       "create an XRC_RECV queue pair in this one",
                                       attr->qp_num)});
  return nullptr;
}

int close_xrcd(ibv_xrcd* xrcd) {
  return guarded_status("ibv_close_xrcd", [&] { return destroy(&xrcd_of(xrcd)); });
}

Status destroy(Xrcd* xrcd) {
  Objects& objects = context_of(xrcd->context).objects;
  bool last = false;
  {
    const auto lock = lock_lists();
    objects.xrcds.erase(xrcd);
    last = find(context_of(xrcd->context), xrcd->file) == nullptr;
  }
  if (last && is_live(xrcd->nic)) {
    if (Status s = xrcd->nic->close_xrcd(xrcd->id); !s) {
      const auto lock = lock_lists();
      objects.xrcds.insert(xrcd);
      return s;
    }
  }
  delete xrcd;
  return Ok{};
}

}  // namespace verbena::front
