// What XRC queue pairs and their shared receive queues have in common.
#pragma once

#include <fcntl.h>
#include <infiniband/verbs.h>

#include "rdma++/context.h"
#include "rdma++/object.h"

namespace rdma {

/// Private to the process. (Domains shared through a file are not offered here.)
class XrcDomain : public Object<ibv_xrcd> {
 public:
  explicit XrcDomain(const Context& context) : Object{open(context)} {}

 private:
  static Shared<ibv_xrcd> open(const Context& context) {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = -1;
    attr.oflags = O_CREAT;
    ibv_xrcd* const raw = ibv_open_xrcd(context.raw(), &attr);
    if (raw == nullptr) throw Error{"ibv_open_xrcd", concat("device ", context.name()), errno};
    return own(raw, "ibv_close_xrcd", ibv_close_xrcd, context.share());
  }
};

}  // namespace rdma
