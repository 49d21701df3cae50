#include "tests/support/cuda/contexts.h"

#include <map>
#include <mutex>
#include <utility>

#include "tests/support/cuda/calls.h"
#include "tests/support/cuda/control.h"
#include "tests/support/cuda/memory.h"

namespace stand_in {
namespace {

/// Never destroyed.
struct Contexts {
  std::mutex lock;
  std::set<CUcontext> all;  // destroyed ones, too
  std::map<CUdevice, CUcontext> primary;
  std::set<CUstream> destroyed_streams;
  unsigned long long last_id = 0;
};

Contexts& contexts() {
  static Contexts& only = *new Contexts;
  return only;
}

thread_local std::vector<CUcontext> stack;

// With the lock.

void bring_to_life(Contexts& c, CUcontext context) {
  context->alive = true;
  context->id = ++c.last_id;
  context->default_stream = make_handle<CUstream_st>(context, true);
}

CUcontext make(Contexts& c, CUdevice device, bool primary) {
  auto* context = make_handle<CUctx_st>();
  context->device = device;
  context->primary = primary;
  c.all.insert(context);
  return context;
}

CUresult check_known(const Contexts& c, CUcontext context) {
  if (context == nullptr || !c.all.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
  return context->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/// To be made current. A destroyed context that isn't a primary one crashes the real driver.
CUresult check_usable(const Contexts& c, CUcontext context) {
  const CUresult result = check_known(c, context);
  if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED && !context->primary)
    die("a destroyed context is made current", reinterpret_cast<std::uintptr_t>(context));
  return result;
}

/// Without the lock. False: it wasn't alive.
bool destroy(CUcontext context) {
  Contexts& c = contexts();
  std::set<CUstream> streams;
  {
    const std::lock_guard hold{c.lock};
    if (check_known(c, context) != CUDA_SUCCESS) return false;
    context->alive = false;
    context->retained = 0;
    streams = std::exchange(context->streams, {});
    streams.insert(std::exchange(context->default_stream, nullptr));
  }
  for (CUstream stream : streams) stream->end();
  free_memory_of(context);
  return true;
}

CUresult create(CUcontext* result, CUdevice device) {
  if (result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= devices()) return CUDA_ERROR_INVALID_DEVICE;
  Contexts& c = contexts();
  const std::lock_guard hold{c.lock};
  *result = make(c, device, false);
  bring_to_life(c, *result);
  stack.push_back(*result);
  return CUDA_SUCCESS;
}

/// The primary context of a device; nullptr: it never had one.
CUcontext primary_of(CUdevice device) {
  Contexts& c = contexts();
  const std::lock_guard hold{c.lock};
  const auto found = c.primary.find(device);
  return found == c.primary.end() ? nullptr : found->second;
}

std::vector<CUstream> streams_of(CUcontext only) {
  Contexts& c = contexts();
  const std::lock_guard hold{c.lock};
  std::vector<CUstream> streams;
  for (CUcontext context : c.all) {
    if (!context->alive || (only != nullptr && context != only)) continue;
    streams.insert(streams.end(), context->streams.begin(), context->streams.end());
    streams.push_back(context->default_stream);
  }
  return streams;
}

}  // namespace

Current current() {
  if (stack.empty() || stack.back() == nullptr) return {};
  Contexts& c = contexts();
  const std::lock_guard hold{c.lock};
  return {stack.back(), check_known(c, stack.back())};
}

Chosen choose(CUstream named) {
  const auto [context, error] = current();
  if (error != CUDA_SUCCESS) return {nullptr, error};
  Contexts& c = contexts();
  const std::lock_guard hold{c.lock};
  if (named == nullptr) return {context->default_stream, CUDA_SUCCESS};
  if (c.destroyed_streams.contains(named))
    die("a destroyed stream is used", reinterpret_cast<std::uintptr_t>(named));
  if (context->streams.contains(named)) return {named, CUDA_SUCCESS};
  for (CUcontext other : c.all) {
    if (other->streams.contains(named)) return {nullptr, CUDA_ERROR_INVALID_HANDLE};
  }
  return {nullptr, CUDA_ERROR_CONTEXT_IS_DESTROYED};
}

Chosen choose_for_work(CUstream named) {
  const Chosen chosen = choose(named);
  if (chosen.error != CUDA_SUCCESS || !chosen.stream->blocking) return chosen;
  CUstream usual = nullptr;
  std::vector<CUstream> before;
  {
    const std::lock_guard hold{contexts().lock};
    usual = chosen.stream->context->default_stream;
    if (usual != nullptr && chosen.stream != usual) before.push_back(usual);
    if (chosen.stream == usual)
      before.assign(usual->context->streams.begin(), usual->context->streams.end());
  }
  for (CUstream stream : before) {
    if (stream->blocking) stream->drain();
  }
  return chosen;
}

void drain_everything() {
  for (CUstream stream : streams_of(nullptr)) stream->drain();
}

void forget_all_contexts() {
  std::set<CUcontext> all;
  {
    const std::lock_guard hold{contexts().lock};
    all = contexts().all;
  }
  for (CUcontext context : all) destroy(context);
}

}  // namespace stand_in

using namespace stand_in;

void stand_in_forget(CUcontext context) { destroy(context); }

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return call("cuDevicePrimaryCtxRetain", [&]() -> CUresult {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= devices()) return CUDA_ERROR_INVALID_DEVICE;
    Contexts& c = contexts();
    const std::lock_guard hold{c.lock};
    CUcontext& primary = c.primary[device];
    if (primary == nullptr) primary = make(c, device, true);
    if (!primary->alive) bring_to_life(c, primary);
    ++primary->retained;
    *context = primary;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return call("cuDevicePrimaryCtxRelease", [&]() -> CUresult {
    CUcontext primary = primary_of(device);
    if (primary == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    {
      const std::lock_guard hold{contexts().lock};
      if (primary->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
      if (--primary->retained > 0) return CUDA_SUCCESS;
    }
    destroy(primary);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return call("cuDevicePrimaryCtxReset", [&]() -> CUresult {
    if (device < 0 || device >= devices()) return CUDA_ERROR_INVALID_DEVICE;
    if (CUcontext primary = primary_of(device)) destroy(primary);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return call("cuDevicePrimaryCtxGetState", [&]() -> CUresult {
    if (device < 0 || device >= devices()) return CUDA_ERROR_INVALID_DEVICE;
    CUcontext primary = primary_of(device);
    const std::lock_guard hold{contexts().lock};
    *flags = 0;
    *active = primary != nullptr && primary->alive;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  return call("cuCtxCreate", [&] { return create(context, device); });
}

CUresult cuCtxCreate_v4(CUcontext* context, void*, unsigned, CUdevice device) {
  return call("cuCtxCreate", [&] { return create(context, device); });
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  return call("cuCtxDestroy", [&]() -> CUresult {
    {
      const std::lock_guard hold{contexts().lock};
      const CUresult known = check_known(contexts(), context);
      if (known == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        die("a context is destroyed twice", reinterpret_cast<std::uintptr_t>(context));
      if (known != CUDA_SUCCESS || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
    }
    destroy(context);
    if (!stack.empty() && stack.back() == context) stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return call("cuCtxSetCurrent", [&]() -> CUresult {
    if (context != nullptr) {
      const std::lock_guard hold{contexts().lock};
      if (const CUresult no = check_usable(contexts(), context); no != CUDA_SUCCESS) return no;
    }
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return call("cuCtxGetCurrent", [&]() -> CUresult {
    *context = stack.empty() ? nullptr : stack.back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return call("cuCtxGetDevice", [&]() -> CUresult {
    const auto [context, error] = current();
    if (error == CUDA_SUCCESS) *device = context->device;
    return error;
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return call("cuCtxPushCurrent", [&]() -> CUresult {
    const std::lock_guard hold{contexts().lock};
    if (const CUresult no = check_usable(contexts(), context); no != CUDA_SUCCESS) return no;
    stack.push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return call("cuCtxPopCurrent", [&]() -> CUresult {
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  return call("cuCtxGetId", [&]() -> CUresult {
    if (context == nullptr) {
      const Current now = current();
      if (now.error != CUDA_SUCCESS) return now.error;
      context = now.context;
    }
    const std::lock_guard hold{contexts().lock};
    const CUresult known = check_known(contexts(), context);
    if (known == CUDA_SUCCESS) *id = context->id;
    return known;
  });
}

CUresult cuCtxSynchronize() {
  return call("cuCtxSynchronize", [&]() -> CUresult {
    const auto [context, error] = current();
    if (error != CUDA_SUCCESS) return error;
    for (CUstream stream : streams_of(context)) stream->drain();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return call("cuStreamCreate", [&]() -> CUresult {
    const auto [context, error] = current();
    if (error != CUDA_SUCCESS) return error;
    if (stream == nullptr || (flags & ~CU_STREAM_NON_BLOCKING) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard hold{contexts().lock};
    *stream = make_handle<CUstream_st>(context, (flags & CU_STREAM_NON_BLOCKING) == 0);
    context->streams.insert(*stream);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return call("cuStreamDestroy", [&]() -> CUresult {
    const Chosen chosen = choose(stream);
    if (stream == nullptr || chosen.error != CUDA_SUCCESS)
      return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : chosen.error;
    {
      const std::lock_guard hold{contexts().lock};
      stream->context->streams.erase(stream);
      contexts().destroyed_streams.insert(stream);
    }
    stream->end();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return call("cuStreamSynchronize", [&]() -> CUresult {
    const Chosen chosen = choose(stream);
    if (chosen.error == CUDA_SUCCESS) chosen.stream->drain();
    return chosen.error;
  });
}

CUresult cuStreamQuery(CUstream stream) {
  return call("cuStreamQuery", [&]() -> CUresult {
    const Chosen chosen = choose(stream);
    if (chosen.error != CUDA_SUCCESS) return chosen.error;
    return chosen.stream->idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  return call("cuThreadExchangeStreamCaptureMode", [&]() -> CUresult {
    thread_local int mine = 0;
    if (mode == nullptr || *mode < 0 || *mode > 2) return CUDA_ERROR_INVALID_VALUE;
    std::swap(mine, *mode);
    return CUDA_SUCCESS;
  });
}
