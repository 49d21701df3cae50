// Events of the connection manager become events of the program's ids.

#include <mutex>
#include <utility>

#include "cm/connection_manager.h"
#include "front/ucma/addresses.h"
#include "front/ucma/path.h"
#include "front/ucma/ucma.h"
#include "front/verbs/guarded.h"

namespace verbena::front::ucma {

namespace {

/// What the program is told, and where the id stands then.
struct Outcome {
  EventType event;
  IdState state;
};

Outcome outcome_of(cm::EventKind kind, IdState now) {
  switch (kind) {
    case cm::EventKind::connect_request:
      return {EventType::connect_request, IdState::connecting};
    case cm::EventKind::connect_response:
      return {EventType::connect_response, IdState::connected};
    case cm::EventKind::established:
      return {EventType::established, IdState::connected};
    case cm::EventKind::rejected:
      return {EventType::rejected, IdState::over};
    case cm::EventKind::unreachable:
      return {EventType::unreachable, IdState::over};
    case cm::EventKind::connect_error:
      return {EventType::connect_error, IdState::over};
    case cm::EventKind::disconnected:
      return {EventType::disconnected, now};
    case cm::EventKind::timewait_exit:
      return {EventType::timewait_exit, IdState::over};
  }
  return {EventType::connect_error, IdState::over};
}

}  // namespace

void Ucma::tell(Id& id, EventType event, int status) {
  QueuedEvent queued{.id = id.handle};
  queued.event.uid = id.uid;
  queued.event.id = id.handle;
  queued.event.event = static_cast<std::uint32_t>(event);
  queued.event.status = static_cast<std::uint32_t>(status);
  id.channel->add(queued);
}

bool Ucma::connection_events(Wait wait) {
  std::unique_lock held{mutex_, std::defer_lock};
  if (wait == Wait::yes) {
    held.lock();
  } else if (!held.try_lock()) {
    return false;
  }
  try {
    take_news();
  } catch (...) {  // no memory: whoever waits for the event asks again, or runs into his timeout
    report_exception("rdma_cm event");
  }
  return true;
}

void Ucma::take_news() {
  if (nic_ == nullptr) return;
  for (const cm::Event& news : nic_->take_connection_events()) {
    news.kind == cm::EventKind::connect_request ? handle_request(news) : handle(news);
  }
}

void Ucma::handle(const cm::Event& news) {
  const auto found = by_connection_.find(news.id);
  if (found == by_connection_.end()) return;  // destroyed meanwhile
  Id& id = *found->second;
  const Outcome outcome = outcome_of(news.kind, id.state);
  id.state = outcome.state;
  if (id.uid == 0) return;  // a request that the program hasn't accepted: it hears of it then

  QueuedEvent queued{.id = id.handle};
  queued.event.uid = id.uid;
  queued.event.id = id.handle;
  queued.event.event = static_cast<std::uint32_t>(outcome.event);
  queued.event.status = static_cast<std::uint32_t>(news.status);
  put_offer(queued.event, news, id);
  id.channel->add(queued);
}

void Ucma::handle_request(const cm::Event& news) {
  const auto found = by_listener_.find(news.listener);
  auto device = device_with(news.offer.local.address, 0);
  if (found == by_listener_.end() || !device || full()) {
    nic_->manage([&](cm::ConnectionManager& m, Instant now) { m.destroy(news.id, now); });
    return;
  }
  Id& listener = *found->second;
  Id& id = create_id(*listener.channel);
  id.space = listener.space;
  id.datagrams = listener.datagrams;
  id.transport = news.offer.transport;
  id.state = IdState::connecting;
  id.v6 = !news.offer.local.address.is_v4();
  id.source = news.offer.local.address;
  id.source_port = news.offer.local.port;
  id.destination = news.offer.remote.address;
  id.destination_port = news.offer.remote.port;
  id.device = std::move(*device);
  id.traffic_class = listener.traffic_class;
  attach(id, news.id);

  // It goes to the listener, and names the new id.
  QueuedEvent queued{.id = listener.handle, .request = id.handle, .connection = news.id};
  queued.event.uid = listener.uid;
  queued.event.id = id.handle;
  queued.event.event = static_cast<std::uint32_t>(EventType::connect_request);
  put_offer(queued.event, news, id);
  listener.channel->add(queued);
}

}  // namespace verbena::front::ucma
