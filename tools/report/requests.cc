#include "tools/report/requests.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/psn.h"
#include "packet/packet.h"
#include "tools/report/packet_headers.h"

namespace verbena::report {
namespace {

using packet::Kind;
using packet::OpcodeInfo;

/// Requests that no packet belongs to.
bool is_local(const Request& r) { return r.op == "LOCAL_INV" || r.op == "BIND_MW"; }

/// As the verbs call what a packet begins.
std::string op_of(const OpcodeInfo& info) {
  switch (info.kind) {
    case Kind::send:
      return "SEND";
    case Kind::write:
      return "RDMA_WRITE";
    case Kind::read_request:
      return "RDMA_READ";
    case Kind::compare_swap:
      return "ATOMIC_CMP_AND_SWP";
    case Kind::fetch_add:
      return "ATOMIC_FETCH_AND_ADD";
    case Kind::atomic_write:
      return "ATOMIC_WRITE";
    case Kind::flush:
      return "FLUSH";
    case Kind::none:
    case Kind::read_response:
    case Kind::acknowledge:
    case Kind::atomic_acknowledge:
    case Kind::cnp:
    case Kind::mark:
    case Kind::mark_reached:
      break;
  }
  return "";
}

/// The send queue of one end.
class SendQueue {
 public:
  SendQueue(std::vector<Request>& requests, const Conversation& c, Side side)
      : requests_{requests},
        traced_{c.end(side).traced},
        reliable_{c.type != "UD" && c.type != "UC"},
        mtu_{c.mtu} {}

  void posted(Event& e) {
    e.request = add(e);
    Request& r = requests_[e.request];
    r.wr_id = e.note;
    r.op = e.what;
    r.bytes = e.bytes;
    r.posted = e.time;
    queue_.push_back({e.request, e.signaled});
  }

  /// RESET and ERR: what is left completes with an error, or not at all.
  void stopped(bool reset) {
    next_ = queue_.size();
    current_ = kNone;
    if (!reset) return;
    oldest_ = queue_.size();
    places_.clear();
    unanswered_ = 0;
  }

  /// A packet of a request.
  void sent(Event& e) {
    const OpcodeInfo& info = info_of(e);
    if (e.flags.again) {
      e.request = at_psn(e.psn);
    } else {
      if ((info.first && !continues(e)) || current_ == kNone) begin(e);
      e.request = current_;
      if (e.request != kNone) mark_psns(e);
      asked_ += requested_bytes(e);
    }
    if (e.request == kNone) return;
    Request& r = requests_[e.request];
    if (r.first_sent == kNever) r.first_sent = e.time;
    r.last_sent = e.time;
    ++(e.flags.again ? r.packets_again : r.packets);
    if (e.flags.again) {
      const auto first = sent_at_.find(e.psn);
      if (first != sent_at_.end()) repeated_since_.try_emplace(e.request, first->second);
      repeated_until_[e.request] = e.time;
      return;
    }
    sent_at_[e.psn] = e.time;
    if (!traced_ && info.kind == Kind::send) r.bytes += e.bytes;  // no header says how long it is
  }

  /// What the other end answered.
  void answered(Event& e) {
    e.request = at_psn(e.psn);
    if (e.flags.lost || e.flags.dropped || e.flags.nak || e.flags.rnr) return;
    const Time at = e.arrived == kNever ? e.time : e.arrived;
    const OpcodeInfo& info = info_of(e);
    const bool is_read = info.kind == Kind::read_response;
    if (is_read) extend(e);
    for (; unanswered_ < places_.size(); ++unanswered_) {
      const Place& place = places_[unanswered_];
      if (distance(Psn{e.psn}, place.last) < 0) break;
      if (is_read && !info.last && place.request == e.request) break;  // there is more of it
      answered_.try_emplace(place.request, at);
    }
  }

  /// A READ takes as many PSNs as it has responses; without the MTU, these tell.
  void extend(const Event& response) {
    const auto place =
        std::ranges::find(places_.rbegin(), places_.rend(), response.request, &Place::request);
    if (place == places_.rend()) return;
    if (distance(Psn{response.psn}, place->last) > 0) place->last = Psn{response.psn};
  }

  void retried(Event& e) const { e.request = at_psn(e.psn); }

  /// Requests complete in their order. One that isn't signaled completes with an error only.
  void completed(Event& e) {
    const bool good = e.what == "SUCCESS";
    for (std::size_t i = oldest_; i < queue_.size(); ++i) {
      const Posted& p = queue_[i];
      Request& r = requests_[p.request];
      if (r.wr_id != e.note || (good && !p.signaled)) continue;
      r.completed = e.time;
      r.status = e.what;
      r.failed = !good;
      e.request = p.request;
      oldest_ = i + 1;
      return;
    }
  }

  /// Where the time of each went.
  void account() {
    for (const auto& [place, signaled] : queue_) {
      Request& r = requests_[place];
      const auto answered = answered_.find(place);
      Time end = r.completed;
      if (end == kNever) r.status = end_of(r, signaled, answered != answered_.end());
      if (end == kNever && answered != answered_.end()) end = answered->second;
      if (end == kNever) end = r.last_sent;
      const Time begin = r.posted != kNever ? r.posted : r.first_sent;
      if (end == kNever || begin == kNever) continue;
      if (r.first_sent == kNever) {
        r.waiting = end - begin;
        continue;
      }
      r.waiting = std::max<Time>(0, r.first_sent - begin);
      if (const auto since = repeated_since_.find(place); since != repeated_since_.end()) {
        r.repeating = std::max<Time>(0, std::min(repeated_until_[place], end) - since->second);
      }
      r.on_the_wire = std::max<Time>(0, end - begin - r.waiting - r.repeating);
    }
  }

 private:
  struct Posted {
    std::uint32_t request;
    bool signaled;
  };
  /// The PSNs of a request, in the order in which they were used.
  struct Place {
    Psn first;
    Psn last;
    std::uint32_t request;
  };

  std::uint32_t add(const Event& e) {
    Request r;
    r.conversation = e.conversation;
    r.side = e.side;
    requests_.push_back(std::move(r));
    return static_cast<std::uint32_t>(requests_.size() - 1);
  }

  /// A long READ may leave as several requests, one behind the other.
  [[nodiscard]] bool continues(const Event& e) const {
    return traced_ && current_ != kNone && info_of(e).kind == Kind::read_request &&
           requests_[current_].op == "RDMA_READ" && asked_ < requests_[current_].bytes;
  }

  /// What is known of one without a completion.
  [[nodiscard]] std::string end_of(const Request& r, bool signaled, bool answered) const {
    if (answered) return traced_ && !signaled ? "acknowledged, unsignaled" : "acknowledged";
    if (is_local(r)) return signaled ? "no completion" : "unsignaled";
    if (r.first_sent == kNever) return "never sent";
    return reliable_ ? "no acknowledgement" : "sent";
  }

  /// The first packet of a request.
  void begin(const Event& e) {
    current_ = kNone;
    asked_ = 0;
    if (traced_) {
      while (next_ < queue_.size() && is_local(requests_[queue_[next_].request])) ++next_;
      if (next_ < queue_.size()) current_ = queue_[next_++].request;
      return;
    }
    current_ = add(e);
    requests_[current_].op = op_of(info_of(e));
    requests_[current_].bytes = requested_bytes(e);
    queue_.push_back({current_, true});
  }

  void mark_psns(const Event& e) {
    const bool starts = places_.empty() || places_.back().request != e.request;
    std::uint32_t answers = 1;
    if (info_of(e).kind == Kind::read_request && mtu_ != 0) {
      answers = std::max(1u, (requested_bytes(e) + mtu_ - 1) / mtu_);
    }
    if (starts) places_.push_back({Psn{e.psn}, Psn{e.psn}, e.request});
    places_.back().last = Psn{e.psn + answers - 1};
  }

  [[nodiscard]] std::uint32_t at_psn(std::uint32_t psn) const {
    // PSNs are compared over half their circle only: what is older than that isn't meant.
    const auto found = std::find_if(places_.rbegin(), places_.rend(), [&](const Place& p) {
      return distance(Psn{psn}, p.first) >= 0;
    });
    return found == places_.rend() ? kNone : found->request;
  }

  std::vector<Request>& requests_;
  bool traced_;
  bool reliable_;  // the other end acknowledges
  std::uint32_t mtu_;
  std::vector<Posted> queue_;      // in the order of the posts
  std::size_t next_ = 0;           // the first of queue_ of which nothing was sent
  std::size_t oldest_ = 0;         // the one behind the last that completed
  std::uint32_t current_ = kNone;  // whose packets are being sent
  std::uint64_t asked_ = 0;        // bytes that the READ requests of current_ ask for
  std::vector<Place> places_;
  std::size_t unanswered_ = 0;             // in places_
  std::map<std::uint32_t, Time> sent_at_;  // by PSN: when it left for the first time
  // By request: from when its first lost packet left to when the last repetition did.
  std::map<std::uint32_t, Time> repeated_since_, repeated_until_;
  std::map<std::uint32_t, Time> answered_;
};

}  // namespace

std::vector<Request> find_requests(const std::vector<Conversation>& conversations,
                                   std::vector<Event>& events) {
  std::vector<Request> requests;
  std::map<std::pair<std::uint32_t, Side>, SendQueue> queues;
  const auto queue = [&](const Event& e, Side side) -> SendQueue& {
    return queues.try_emplace({e.conversation, side}, requests, conversations[e.conversation], side)
        .first->second;
  };
  for (Event& e : events) {
    switch (e.kind) {
      case EventKind::post_send:
        queue(e, e.side).posted(e);
        break;
      case EventKind::packet:
        if (e.what == "ConnectRequest" && !e.flags.again) {
          for (const Side side : {Side::left, Side::right}) queue(e, side).stopped(true);
        }
        if (e.flags.connection) break;
        if (info_of(e).is_request()) queue(e, e.side).sent(e);
        if (info_of(e).is_response()) queue(e, other(e.side)).answered(e);
        break;
      case EventKind::retry:
        queue(e, e.side).retried(e);
        break;
      case EventKind::completion:
        if (!e.receive) queue(e, e.side).completed(e);
        break;
      case EventKind::state:
        if (e.what.ends_with("RESET")) queue(e, e.side).stopped(true);
        if (e.what.find("→ ERR") != std::string::npos) queue(e, e.side).stopped(false);
        break;
      case EventKind::post_receive:
        break;
    }
  }
  for (auto& [end, sends] : queues) sends.account();
  return requests;
}

}  // namespace verbena::report
