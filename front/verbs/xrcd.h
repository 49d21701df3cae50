#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <optional>

#include "base/result.h"
#include "host/nic.h"

namespace verbena::front {

/// A file names a domain to the handles that were opened with it. Other processes that open it
/// get a domain of their own: their receive queues can't be reached through our queue pairs.
struct XrcdFile {
  dev_t device = 0;
  ino_t inode = 0;

  friend bool operator==(const XrcdFile&, const XrcdFile&) = default;
};

struct Xrcd : ibv_xrcd {
  host::Nic* nic = nullptr;
  engine::XrcdId id{};  // the same for all handles of one file
  std::optional<XrcdFile> file;
};

/// Only of a domain of ours.
[[nodiscard]] inline Xrcd& xrcd_of(ibv_xrcd* xrcd) { return static_cast<Xrcd&>(*xrcd); }

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int close_xrcd(ibv_xrcd* xrcd);
/// Another process's XRC_RECV queue pair. EOPNOTSUPP.
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr);

/// EBUSY while queues are in it.
Status destroy(Xrcd* xrcd);

}  // namespace verbena::front
