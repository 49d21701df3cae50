#include "engine/services.h"

#include <algorithm>
#include <new>

namespace verbena::engine {

void Services::notify(CompletionQueue& cq) {
  // A program may ask again before anybody looked here: that is one event still.
  if (std::find(notifications.begin(), notifications.end(), &cq) != notifications.end()) return;
  notifications.push_back(&cq);
}

void Services::tell(const Event& event) try {
  events.push_back(event);
} catch (const std::bad_alloc&) {
  ++counters.lost_events;
}

}  // namespace verbena::engine
