#include "tests/support/cuda/streams.h"

#include <unistd.h>

#include <thread>
#include <utility>

#include "tests/support/cuda/calls.h"

CUstream_st::CUstream_st(CUcontext owner, bool waits_for_default)
    : context{owner}, blocking{waits_for_default} {
  std::thread{[this] { work_off(); }}.detach();
}

bool CUstream_st::add(std::function<void()> work) {
  const std::lock_guard hold{lock_};
  if (ended_) return false;
  waiting_.push_back(std::move(work));
  ++added_;
  changed_.notify_all();
  return true;
}

void CUstream_st::drain() {
  std::unique_lock hold{lock_};
  changed_.wait(hold, [this, until = added_] { return done_ >= until; });
}

bool CUstream_st::idle() {
  const std::lock_guard hold{lock_};
  return done_ == added_;
}

void CUstream_st::end() {
  {
    const std::lock_guard hold{lock_};
    ended_ = true;
    changed_.notify_all();
  }
  drain();
}

void CUstream_st::work_off() {
  std::unique_lock hold{lock_};
  while (true) {
    changed_.wait(hold, [this] { return ended_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    {
      const auto work = std::move(waiting_.front());
      waiting_.pop_front();
      hold.unlock();
      if (const unsigned delay = stand_in::next_delay_us(); delay > 0) usleep(delay);
      work();
    }
    hold.lock();
    ++done_;
    changed_.notify_all();
  }
}
