#pragma once

// An open device: the ibv_context that programs hold, built on the public ABI alone.

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "host/devices/device.h"
#include "host/events/event_channel.h"
#include "host/nic.h"

namespace verbena::front {

struct Pd;
struct Mr;
struct Dm;
struct Td;
struct Mw;
struct Ah;
struct Xrcd;
struct Srq;
struct CompChannel;
struct Cq;
struct Qp;
struct Flow;
struct Wq;
struct WqTable;

/// What a program made and hasn't destroyed; closing the device does it. Under lock_lists().
struct Objects {
  std::unordered_set<Flow*> flows;
  std::unordered_set<Qp*> qps;
  std::unordered_set<WqTable*> wq_tables;
  int last_wq_table = 0;  // its number
  std::unordered_set<Wq*> wqs;
  std::unordered_set<Srq*> srqs;
  std::unordered_set<Cq*> cqs;
  std::unordered_set<CompChannel*> channels;
  std::unordered_set<Mw*> mws;
  std::unordered_set<Mr*> mrs;
  std::unordered_set<Ah*> ahs;
  std::unordered_set<Xrcd*> xrcds;
  std::unordered_set<Dm*> dms;
  std::unordered_set<Pd*> pds;
  std::unordered_set<Td*> tds;
};

/// What a context's cmd_fd is open on: an empty file without a name, which only tells contexts that
/// share objects (ibv_import_device) from those that don't.
struct ContextFile {
  dev_t device = 0;
  ino_t inode = 0;

  friend bool operator==(const ContextFile&, const ContextFile&) = default;
};

/// The name of such files, as /proc/self/fd shows it.
inline constexpr const char* kContextFile = "verbena-context";

struct Context : verbs_context {
  host::Nic* const nic;       // that tells of the port
  const host::Device device;  // as it was when opened: its name and GUID are for life
  const std::unique_ptr<host::EventChannel> events;
  const ContextFile file;
  Objects objects;

  /// Takes `fd`, which is open on `on_file`.
  Context(host::Nic& on, ibv_device* of, host::Device info,
          std::unique_ptr<host::EventChannel> async, int fd, ContextFile on_file);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The device as it is now; down and without addresses once its interface is gone.
  [[nodiscard]] host::Device now() const;
};

/// All that are open, the oldest first. Under lock_lists().
[[nodiscard]] std::vector<Context*>& open_contexts();
/// What `f` finds in the first context on that file that has it. nullptr: none has. `f` takes a
/// context and returns a pointer. Under lock_lists().
template <typename F>
auto find_in_contexts(const ContextFile& file, F f) -> decltype(f(std::declval<Context&>())) {
  for (Context* context : open_contexts()) {
    if (context->file != file) continue;
    if (auto* found = f(*context)) return found;
  }
  return nullptr;
}

/// Opens a context as ibv_open_device() does. Takes `fd`.
[[nodiscard]] Result<ibv_context*> open_context(ibv_device* device, host::Device info, int fd,
                                                ContextFile file);

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
