#pragma once

// Contexts, which of them is current on a thread, and their streams.

#include <set>
#include <vector>

#include "tests/support/cuda/api.h"
#include "tests/support/cuda/streams.h"

/// Guarded by the lock of contexts.cc.
struct CUctx_st {
  CUdevice device = 0;
  bool primary = false;
  bool alive = false;
  unsigned retained = 0;  // primary
  unsigned long long id = 0;
  CUstream default_stream = nullptr;
  std::set<CUstream> streams;  // without the default one
};

namespace stand_in {

/// The current context; error: there is none, or it was destroyed.
struct Current {
  CUcontext context = nullptr;
  CUresult error = CUDA_ERROR_INVALID_CONTEXT;
};
[[nodiscard]] Current current();

/// The stream that a call names, nullptr being the default one of the current context.
struct Chosen {
  CUstream stream = nullptr;
  CUresult error = CUDA_ERROR_INVALID_HANDLE;
};
/// A stream whose context isn't current is refused, as older drivers do.
[[nodiscard]] Chosen choose(CUstream named);
/// The same, ready to be added to: an operation of the default stream and one of a blocking stream
/// don't overtake each other.
[[nodiscard]] Chosen choose_for_work(CUstream named);

/// Waits for all streams of all contexts, as what frees memory does. Without any lock.
void drain_everything();
void forget_all_contexts();

}  // namespace stand_in
