#pragma once

// An open device: the ibv_context that programs hold, built on the public ABI alone.

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <unordered_set>

#include "base/result.h"
#include "host/device.h"
#include "host/event_channel.h"
#include "host/nic.h"

namespace verbena::front {

struct Pd;
struct Mr;
struct Mw;
struct Ah;
struct Xrcd;
struct Srq;
struct CompChannel;
struct Cq;
struct Qp;

/// What a program made and hasn't destroyed; closing the device does it. Under lock_lists().
struct Objects {
  std::unordered_set<Qp*> qps;
  std::unordered_set<Srq*> srqs;
  std::unordered_set<Cq*> cqs;
  std::unordered_set<CompChannel*> channels;
  std::unordered_set<Mw*> mws;
  std::unordered_set<Mr*> mrs;
  std::unordered_set<Ah*> ahs;
  std::unordered_set<Xrcd*> xrcds;
  std::unordered_set<Pd*> pds;
};

struct Context : verbs_context {
  host::Nic* const nic;       // that tells of the port
  const host::Device device;  // as it was when opened: its name and GUID are for life
  const std::unique_ptr<host::EventChannel> events;
  Objects objects;

  Context(host::Nic& on, ibv_device* of, host::Device info,
          std::unique_ptr<host::EventChannel> async);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The device as it is now; down and without addresses once its interface is gone.
  [[nodiscard]] host::Device now() const;
};

/// Fills the table of functions that inlined verbs go through.
void set_operations(verbs_context& context);

/// Whether a context is ours. Looks at one field of the public ABI, which every context has.
[[nodiscard]] bool is_ours(const ibv_context* context);

/// Whether an object is ours. All of the verbs' objects name their context.
template <typename Object>
[[nodiscard]] bool is_ours(const Object* object) {
  return is_ours(object->context);
}

/// Only of a context of ours.
[[nodiscard]] inline Context& context_of(ibv_context* context) {
  return static_cast<Context&>(*verbs_get_ctx(context));
}

/// EINVAL unless it is the only port that we have.
Status check_port(const Context& context, std::uint32_t port);
/// The entry of that port's table, zeros where there is no address. EINVAL: it has no such entry.
Result<IpAddress> gid_at(const Context& context, std::uint32_t port, std::uint32_t index);

}  // namespace verbena::front
