#include "engine/services.h"

#include <algorithm>
#include <new>

namespace verbena::engine {

namespace {

void add_once(std::vector<CompletionQueue*>& queues, CompletionQueue& cq) {
  if (std::find(queues.begin(), queues.end(), &cq) == queues.end()) queues.push_back(&cq);
}

}  // namespace

// A program may ask again before anybody looked here: that is one event still.
void Services::notify(CompletionQueue& cq) { add_once(notifications, cq); }

void Services::notify_later(CompletionQueue& cq) { add_once(moderated, cq); }

void Services::raise_due() {
  // One that has raised its event meanwhile has another time, or none.
  std::erase_if(moderated, [this](CompletionQueue* cq) {
    if (cq->due() > now && cq->due() != kNever) return false;
    if (cq->due() <= now && cq->expire()) notify(*cq);
    return true;
  });
}

void Services::raise(const Event& event) try {
  events.push_back(event);
} catch (const std::bad_alloc&) {
  ++counters.lost_events;
}

}  // namespace verbena::engine
