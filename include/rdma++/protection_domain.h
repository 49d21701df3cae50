// The domain within which queue pairs and memory may meet.
#pragma once

#include <infiniband/verbs.h>

#include "rdma++/context.h"
#include "rdma++/object.h"

namespace rdma {

class ProtectionDomain : public Object<ibv_pd> {
 public:
  explicit ProtectionDomain(const Context& context)
      : Object{allocate(context)}, context_{context.share()} {}

  /// A second owner of the same domain.
  [[nodiscard]] static ProtectionDomain sharing(const ProtectionDomain& other) {
    return {other.share(), other.context_};
  }

  /// The one that it was made from.
  [[nodiscard]] Context context() const { return Context{context_}; }

 private:
  ProtectionDomain(Shared<ibv_pd> raw, Shared<ibv_context> context)
      : Object{std::move(raw)}, context_{std::move(context)} {}

  static Shared<ibv_pd> allocate(const Context& context) {
    ibv_pd* const raw = ibv_alloc_pd(context.raw());
    if (raw == nullptr) {
      throw Error{"ibv_alloc_pd", concat("device ", context.name()), errno,
                  concat("the device has ", context.limits().max_pd, " of them")};
    }
    return own(raw, "ibv_dealloc_pd", ibv_dealloc_pd, context.share());
  }

  Shared<ibv_context> context_;
};

namespace detail {
[[nodiscard]] inline ibv_device_attr limits_of(ibv_context* context) {
  ibv_device_attr attr{};
  ibv_query_device(context, &attr);  // zeros when it fails: this only explains another failure
  return attr;
}
}  // namespace detail

}  // namespace rdma
