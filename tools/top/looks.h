#pragma once

// Looks again and again, on a thread of its own: a process that is stopped takes its time to be
// given up, and keys shouldn't wait for that.

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "tools/top/rates.h"

namespace verbena::top {

class Looks {
 public:
  using Take = std::function<Sample()>;

  /// std::system_error: there is no descriptor or thread.
  Looks(Take take, double interval);
  ~Looks();
  Looks(const Looks&) = delete;
  Looks& operator=(const Looks&) = delete;

  /// Readable when there is something new.
  [[nodiscard]] int fd() const { return event_; }
  /// The last two, of which the newer one may be new. Throws what taking it threw.
  [[nodiscard]] Pair last();
  /// Seconds from one look to the next; 0: pauses.
  void set_interval(double seconds);

 private:
  void run();

  Take take_;
  int event_;
  std::mutex mutex_;
  std::condition_variable changed_;
  double interval_;
  bool ends_ = false;
  Pair pair_;
  std::exception_ptr problem_;
  std::thread thread_;
};

}  // namespace verbena::top
