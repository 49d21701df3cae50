#include "tools/report/filter.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace verbena::report {
namespace {

bool wants(const Filter& filter, const Model& model, const Event& e) {
  const Conversation& c = model.conversations[e.conversation];
  if (filter.qpn && c.left.qpn != *filter.qpn && c.right.qpn != *filter.qpn) return false;
  if (filter.from && e.time < *filter.from && (e.arrived == kNever || e.arrived < *filter.from)) {
    return false;
  }
  if (filter.to && e.time > *filter.to) return false;
  return !filter.only_errors || is_error(e);
}

/// Keeps those that are marked; returns their new places.
template <typename T>
std::vector<std::uint32_t> keep(std::vector<T>& all, const std::vector<bool>& marked) {
  std::vector<std::uint32_t> places(all.size(), kNone);
  std::vector<T> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!marked[i]) continue;
    places[i] = static_cast<std::uint32_t>(kept.size());
    kept.push_back(std::move(all[i]));
  }
  all = std::move(kept);
  return places;
}

}  // namespace

bool is_error(const Event& e) {
  switch (e.kind) {
    case EventKind::packet:
      return e.flags.lost || e.flags.again || e.flags.duplicate || e.flags.dropped ||
             e.flags.not_taken || e.flags.nak || e.flags.rnr;
    case EventKind::retry:
      return true;
    case EventKind::completion:
      return e.what != "SUCCESS";
    case EventKind::state:
      return e.what.ends_with("ERR") || e.what.ends_with("SQE");
    case EventKind::post_send:
    case EventKind::post_receive:
      break;
  }
  return false;
}

void apply(const Filter& filter, Model& model) {
  std::erase_if(model.events, [&](const Event& e) { return !wants(filter, model, e); });
  std::vector<bool> conversations(model.conversations.size()), requests(model.requests.size());
  for (const Event& e : model.events) {
    conversations[e.conversation] = true;
    if (e.request != kNone) requests[e.request] = true;
  }
  const auto new_conversations = keep(model.conversations, conversations);
  const auto new_requests = keep(model.requests, requests);
  for (Event& e : model.events) {
    e.conversation = new_conversations[e.conversation];
    if (e.request != kNone) e.request = new_requests[e.request];
  }
  for (Request& r : model.requests) r.conversation = new_conversations[r.conversation];
}

}  // namespace verbena::report
