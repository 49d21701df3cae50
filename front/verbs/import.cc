// Objects of a context under further handles: by the context's cmd_fd and the object's handle,
// within one process. Another process has a NIC of its own, which knows nothing of ours.

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/dm.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/mr.h"
#include "front/verbs/nic.h"
#include "front/verbs/pd.h"

namespace verbena::front {

namespace {

std::optional<ContextFile> file_of(int fd) {
  struct stat s {};
  if (fstat(fd, &s) != 0) return std::nullopt;
  return ContextFile{s.st_dev, s.st_ino};
}

bool is_context_file(int fd) {
  std::array<char, 64> text{};
  const ssize_t n = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), text.data(), text.size());
  return n > 0 && std::string_view{text.data(), static_cast<std::size_t>(n)}.find(kContextFile) !=
                      std::string_view::npos;
}

Error no_such(const char* object, std::uint32_t handle) {
  return {EINVAL, fmt::format("handle {:#x}: no {} of that context", handle, object)};
}

/// Under lock_lists().
template <typename Object>
Object* by_handle(const std::unordered_set<Object*>& objects, std::uint32_t handle) {
  const auto found =
      std::ranges::find_if(objects, [&](const Object* o) { return o->handle == handle; });
  return found == objects.end() ? nullptr : *found;
}

Result<ibv_pd*> import(ibv_context* context, std::uint32_t handle) {
  Pd original;
  {
    const auto lock = lock_lists();
    const Pd* found = find_in_contexts(
        context_of(context).file, [&](Context& c) { return by_handle(c.objects.pds, handle); });
    if (found == nullptr || !is_live(found->nic)) return no_such("protection domain", handle);
    original = *found;
  }
  const Result<Pd*> pd = alias(context, original);
  if (!pd) return pd.error();
  return *pd;
}

Result<ibv_mr*> import(ibv_pd* pd, std::uint32_t handle) {
  Context& context = context_of(pd->context);
  const auto lock = lock_lists();
  const Mr* found =
      find_in_contexts(context.file, [&](Context& c) { return by_handle(c.objects.mrs, handle); });
  if (found == nullptr || !is_live(found->nic)) return no_such("memory region", handle);
  auto mr = std::make_unique<Mr>(*found);
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = nullptr;  // as with the kernel's devices
  context.objects.mrs.insert(mr.get());
  return mr.release();
}

Result<ibv_dm*> import_memory(ibv_context* context, std::uint32_t handle) {
  std::shared_ptr<DeviceMemory> memory;
  {
    const auto lock = lock_lists();
    const Dm* found = find_in_contexts(
        context_of(context).file, [&](Context& c) { return by_handle(c.objects.dms, handle); });
    if (found == nullptr) return no_such("device memory", handle);
    memory = found->memory;
  }
  return add_dm(context, std::move(memory), handle);
}

}  // namespace

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_context* ibv_import_device(int fd) {
  const auto file = file_of(fd);
  ibv_device* device = nullptr;
  std::optional<host::Device> info;
  if (file) {
    const auto lock = lock_lists();
    if (Context* open = find_in_contexts(*file, [](Context& c) { return &c; })) {
      device = open->context.device;
      info = open->device;
    }
  }
  if (info) {
    return guarded("ibv_import_device",
                   [&] { return open_context(device, std::move(*info), fd, *file); });
  }
  if (file && is_context_file(fd)) {
    report("ibv_import_device",
           Error{EOPNOTSUPP, fmt::format("fd {}: a context of another process, or one that was "
                                         "closed; objects can't be shared between processes",
                                         fd)});
    return nullptr;
  }
  return real::call<"ibv_import_device", "IBVERBS_1.10">(ibv_import_device, fd);
}

VERBENA_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  if (!is_ours(context)) {
    return real::call<"ibv_import_pd", "IBVERBS_1.10">(ibv_import_pd, context, handle);
  }
  return guarded("ibv_import_pd", [&] { return import(context, handle); });
}

VERBENA_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
  if (!is_ours(pd)) {
    real::call<"ibv_unimport_pd", "IBVERBS_1.10">(ibv_unimport_pd, pd);
    return;
  }
  forget(&pd_of(pd));
}

VERBENA_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  if (!is_ours(pd)) return real::call<"ibv_import_mr", "IBVERBS_1.10">(ibv_import_mr, pd, handle);
  return guarded("ibv_import_mr", [&] { return import(pd, handle); });
}

VERBENA_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
  if (!is_ours(mr)) {
    real::call<"ibv_unimport_mr", "IBVERBS_1.10">(ibv_unimport_mr, mr);
    return;
  }
  forget(static_cast<Mr*>(mr));
}

VERBENA_EXPORT ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  if (!is_ours(context)) {
    return real::call<"ibv_import_dm", "IBVERBS_1.13">(ibv_import_dm, context, handle);
  }
  return guarded("ibv_import_dm", [&] { return import_memory(context, handle); });
}

VERBENA_EXPORT void ibv_unimport_dm(ibv_dm* dm) {
  if (!is_ours(dm)) {
    real::call<"ibv_unimport_dm", "IBVERBS_1.13">(ibv_unimport_dm, dm);
    return;
  }
  forget(&dm_of(dm));
}
