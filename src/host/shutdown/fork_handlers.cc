#include "host/shutdown/fork_handlers.h"

#include <pthread.h>

#include <algorithm>

namespace verbena::host {
namespace {

ForkHandlers process_handlers;
/// Several threads may fork at a time. A child has the thread that forked, and so its copy.
thread_local ForkHandlers::Prepared prepared_here{};

}  // namespace

void ForkHandlers::add(ForkRank rank, const ForkHandler& handler) {
  auto& slot = handlers_.at(static_cast<std::size_t>(rank));
  const ForkHandler* none = nullptr;
  if (slot.load() == none) slot.compare_exchange_strong(none, &handler);
}

ForkHandlers::Prepared ForkHandlers::prepare() const {
  Prepared prepared{};
  for (std::size_t rank = 0; rank < kForkRanks; ++rank) {
    prepared[rank] = handlers_[rank].load();
    if (prepared[rank] != nullptr) prepared[rank]->prepare();
  }
  return prepared;
}

void ForkHandlers::parent(const Prepared& prepared) {
  std::for_each(prepared.rbegin(), prepared.rend(), [](const ForkHandler* handler) {
    if (handler != nullptr) handler->parent();
  });
}

void ForkHandlers::child(const Prepared& prepared) {
  std::for_each(prepared.rbegin(), prepared.rend(), [](const ForkHandler* handler) {
    if (handler != nullptr) handler->child();
  });
}

void at_fork(ForkRank rank, const ForkHandler& handler) {
  process_handlers.add(rank, handler);
  static const int registered = pthread_atfork([] { prepared_here = process_handlers.prepare(); },
                                               [] { ForkHandlers::parent(prepared_here); },
                                               [] { ForkHandlers::child(prepared_here); });
  static_cast<void>(registered);
}

}  // namespace verbena::host
