#include "front/verbs/nic.h"

#include <cerrno>
#include <string>

#include "host/shutdown/fork_handlers.h"

namespace verbena::front {

std::atomic<host::Nic*> live_nic{nullptr};

namespace {

std::mutex lists;

void survive_fork() {
  static constexpr host::ForkHandler handler{.prepare = [] { lists.lock(); },
                                             .parent = [] { lists.unlock(); },
                                             .child =
                                                 [] {
                                                   live_nic.store(nullptr);
                                                   lists.unlock();
                                                 }};
  host::at_fork(host::ForkRank::verbs_lists, handler);
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
