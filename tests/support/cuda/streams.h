#pragma once

// A stream: a thread that does what was asked of it, in order, each time a little late.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "tests/support/cuda/api.h"

struct CUstream_st {
  CUstream_st(CUcontext owner, bool waits_for_default);

  /// False: the stream has ended.
  [[nodiscard]] bool add(std::function<void()> work);
  /// Returns when all that was added before is done.
  void drain();
  [[nodiscard]] bool idle();
  /// Does what was asked of it and ends.
  void end();

  const CUcontext context;
  const bool blocking;  // towards the default stream of the context

 private:
  void work_off();

  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  unsigned long long added_ = 0;
  unsigned long long done_ = 0;
  bool ended_ = false;
};
