#include "front/verbs/context.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "front/preload/real.h"
#include "front/verbs/ah.h"
#include "front/verbs/comp_channel.h"
#include "front/verbs/cq.h"
#include "front/verbs/device.h"
#include "front/verbs/dm.h"
#include "front/verbs/export.h"
#include "front/verbs/flow.h"
#include "front/verbs/guarded.h"
#include "front/verbs/mr.h"
#include "front/verbs/mw.h"
#include "front/verbs/nic.h"
#include "front/verbs/parent_domain.h"
#include "front/verbs/pd.h"
#include "front/verbs/qp.h"
#include "front/verbs/srq.h"
#include "front/verbs/wq.h"
#include "front/verbs/xrcd.h"
#include "system/kernel_calls.h"

namespace verbena::front {

namespace {

template <typename Object>
std::vector<Object*> snapshot(const std::unordered_set<Object*>& objects) {
  const auto lock = lock_lists();
  return {objects.begin(), objects.end()};
}

/// As the kernel does when a program goes: users before what they use. Failures are logged
/// by nobody, since there is nobody left to act on them.
void destroy_everything(Context& context) {
  for (Flow* flow : snapshot(context.objects.flows)) static_cast<void>(destroy(flow));
  for (Qp* qp : snapshot(context.objects.qps)) static_cast<void>(destroy(qp, Unacked::ignored));
  for (WqTable* t : snapshot(context.objects.wq_tables)) static_cast<void>(destroy(t));
  for (Wq* wq : snapshot(context.objects.wqs)) static_cast<void>(destroy(wq));
  for (Srq* s : snapshot(context.objects.srqs)) static_cast<void>(destroy(s, Unacked::ignored));
  for (Cq* cq : snapshot(context.objects.cqs)) static_cast<void>(destroy(cq, Unacked::ignored));
  for (CompChannel* c : snapshot(context.objects.channels)) static_cast<void>(destroy(c));
  for (Mw* mw : snapshot(context.objects.mws)) static_cast<void>(destroy(mw));
  for (Ah* ah : snapshot(context.objects.ahs)) static_cast<void>(destroy(ah));
  for (Xrcd* x : snapshot(context.objects.xrcds)) static_cast<void>(destroy(x));
  for (Mr* mr : snapshot(context.objects.mrs)) static_cast<void>(destroy(mr));
  for (Dm* dm : snapshot(context.objects.dms)) static_cast<void>(destroy(dm));
  for (Pd* pd : snapshot(context.objects.pds)) {
    if (pd->below != nullptr) static_cast<void>(destroy(pd));
  }
  for (Td* td : snapshot(context.objects.tds)) static_cast<void>(destroy(td));
  for (Pd* pd : snapshot(context.objects.pds)) static_cast<void>(destroy(pd));
}

}  // namespace

namespace {

/// A new file, which no other context has.
Result<std::pair<int, ContextFile>> new_file() {
  const int fd = memfd_create(kContextFile, MFD_CLOEXEC);
  struct stat s {};
  if (fd < 0 || fstat(fd, &s) != 0) {
    const int code = errno;
    if (fd >= 0) kernel::close(fd);
    return Error{code, fmt::format("memfd_create: {}", std::strerror(code))};
  }
  return std::pair{fd, ContextFile{s.st_dev, s.st_ino}};
}

}  // namespace

std::vector<Context*>& open_contexts() {
  static std::vector<Context*> open;
  return open;
}

Result<ibv_context*> open_context(ibv_device* device, host::Device info, int fd, ContextFile file) {
  const auto failed = [&](const Error& e) {
    kernel::close(fd);
    return e;
  };
  const Result<host::Nic*> nic = start_nic();
  if (!nic) return failed(nic.error());
  const Result<host::EventChannel*> async = host::EventChannel::create();
  if (!async) return failed(async.error());
  std::unique_ptr<host::EventChannel> events{*async};
  auto context =
      std::make_unique<Context>(**nic, device, std::move(info), std::move(events), fd, file);
  const auto lock = lock_lists();
  open_contexts().push_back(context.get());
  return &context.release()->context;
}

Context::Context(host::Nic& on, ibv_device* of, host::Device info,
                 std::unique_ptr<host::EventChannel> async, int fd, ContextFile on_file)
    : verbs_context{}, nic{&on}, device{std::move(info)}, events{std::move(async)}, file{on_file} {
  set_operations(*this);
  sz = sizeof(verbs_context);
  context.device = of;
  context.cmd_fd = fd;
  context.async_fd = events->fd();
  context.num_comp_vectors = 1;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&context.mutex, nullptr);
  nic->watch_port(device.name, *events);
}

Context::~Context() {
  if (is_live(nic)) nic->unwatch_port(*events);
  kernel::close(context.cmd_fd);
  pthread_mutex_destroy(&context.mutex);
}

host::Device Context::now() const {
  if (auto found = device_now(device.name)) return *found;
  host::Device gone = device;
  gone.up = gone.listed = false;
  std::fill(gone.gids.begin(), gone.gids.end(), IpAddress{});
  return gone;
}

Status check_port(const Context& context, std::uint32_t port) {
  if (port == 1) return Ok{};
  return Error{EINVAL, fmt::format("port {} of {}: it has port 1 only", port, context.device.name)};
}

Result<IpAddress> gid_at(const Context& context, std::uint32_t port, std::uint32_t index) {
  if (Status s = check_port(context, port); !s) return s.error();
  const auto gids = context.now().gids;
  if (index < gids.size()) return gids[index];
  return Error{EINVAL,
               fmt::format("GID index {}: {} has {}", index, context.device.name, gids.size())};
}

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  Device* const ours = find_device(device);
  if (ours == nullptr) {
    return real::call<"ibv_open_device", "IBVERBS_1.1">(ibv_open_device, device);
  }
  return guarded("ibv_open_device", [&]() -> Result<ibv_context*> {
    host::Device info;
    {
      const auto lock = lock_lists();
      info = ours->info;
    }
    const auto file = new_file();
    if (!file) return file.error();
    return open_context(device, std::move(info), file->first, file->second);
  });
}

VERBENA_EXPORT int ibv_close_device(ibv_context* context) {
  if (!is_ours(context)) {
    return real::call<"ibv_close_device", "IBVERBS_1.1">(ibv_close_device, context);
  }
  return guarded_status("ibv_close_device", [&]() -> Status {
    const std::unique_ptr<Context> closing{&context_of(context)};
    destroy_everything(*closing);
    const auto lock = lock_lists();
    std::erase(open_contexts(), closing.get());
    return Ok{};
  });
}
