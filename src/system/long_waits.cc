#include "system/long_waits.h"

#include <pthread.h>

#include "system/kernel_calls.h"

namespace verbena::kernel {

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)

template <typename Call>
auto cancellable(Call call) {
  return call();
}

#else

/// Cancelled at any time while `call` runs, which has nothing to clean up; nor may any function of
/// this file, because the compiler takes for granted that a system call doesn't unwind.
template <typename Call>
auto cancellable(Call call) {
  int before = PTHREAD_CANCEL_DEFERRED;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
  const auto result = call();
  pthread_setcanceltype(before, nullptr);
  return result;
}

#endif

}  // namespace

ssize_t wait_and_read(int fd, void* into, std::size_t size) {
  return cancellable([=] { return read(fd, into, size); });
}

ssize_t wait_and_recv(int fd, void* into, std::size_t size, int flags) {
  return cancellable([=] { return recv(fd, into, size, flags); });
}

int wait_for_signal() {
  return cancellable([] { return poll(nullptr, 0, -1); });
}

}  // namespace verbena::kernel
