#include "front/verbs/nic.h"

#include <pthread.h>

#include <cerrno>
#include <string>

namespace verbena::front {

std::atomic<host::Nic*> live_nic{nullptr};

namespace {

std::mutex lists;

void survive_fork() {
  static const int registered = pthread_atfork([] { lists.lock(); }, [] { lists.unlock(); },
                                               [] {
                                                 live_nic.store(nullptr);
                                                 lists.unlock();
                                               });
  static_cast<void>(registered);
}

}  // namespace

std::unique_lock<std::mutex> lock_lists() {
  survive_fork();
  return std::unique_lock{lists};
}

Result<host::Nic*> start_nic() {
  survive_fork();
  Result<host::Nic*> nic = host::Nic::instance();
  if (nic) live_nic.store(*nic);
  return nic;
}

Error inherited(const char* object) {
  return Error{EINVAL, std::string{object} +
                           " was made before fork(), and belongs to the parent: make a new one"};
}

}  // namespace verbena::front
