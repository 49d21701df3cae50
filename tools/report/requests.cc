#include "tools/report/requests.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/psn.h"
#include "packet/packet.h"

namespace verbena::report {
namespace {

using packet::Kind;
using packet::OpcodeInfo;

const OpcodeInfo& info_of(const Event& e) {
  return packet::info_of(static_cast<packet::Opcode>(e.opcode));
}

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

/// The length that a RETH names; 0: there is none.
std::uint32_t length_in(const Event& e) {
  const OpcodeInfo& info = info_of(e);
  if (!info.reth) return 0;
  std::size_t at = packet::Bth::kSize;
  if (info.xrceth) at += packet::Xrceth::kSize;
  if (info.deth) at += packet::Deth::kSize;
  if (info.feth) at += packet::Feth::kSize;
  const auto reth =
      packet::decode_reth(std::span{e.headers}.subspan(std::min(at, e.headers.size())));
  return reth ? reth->length : 0;
}

/// The send queue of one end.
class SendQueue {
 public:
  SendQueue(std::vector<Request>& requests, bool traced, std::uint32_t mtu)
      : requests_{requests}, traced_{traced}, mtu_{mtu} {}

  void posted(Event& e) {
    e.request = add(e);
    Request& r = requests_[e.request];
    r.wr_id = e.note;
    r.op = e.what;
    r.bytes = e.bytes;
    r.posted = e.time;
    queue_.push_back(e.request);
  }

  /// A packet of a request.
  void sent(Event& e) {
    const OpcodeInfo& info = info_of(e);
    if (e.flags.again) {
      e.request = at_psn(e.psn);
    } else {
      if (info.first || current_ == kNone) begin(e);
      e.request = current_;
      if (e.request != kNone) mark_psns(e);
    }
    if (e.request == kNone) return;
    Request& r = requests_[e.request];
    if (r.first_sent == kNever) r.first_sent = e.time;
    r.last_sent = e.time;
    ++(e.flags.again ? r.packets_again : r.packets);
    if (!e.flags.again) {
      first_times_[e.request] = e.time;
      if (!traced_ && length_in(e) == 0) r.bytes += e.bytes;
    }
  }

  /// What the other end answered.
  void answered(Event& e) {
    e.request = at_psn(e.psn);
    if (e.flags.lost || e.flags.dropped || e.flags.nak || e.flags.rnr) return;
    const Time at = e.arrived == kNever ? e.time : e.arrived;
    for (; unanswered_ < places_.size(); ++unanswered_) {
      const Place& place = places_[unanswered_];
      if (distance(Psn{e.psn}, place.last) < 0) break;
      answered_.try_emplace(place.request, at);
    }
  }

  void retried(Event& e) const { e.request = at_psn(e.psn); }

  void completed(Event& e) {
    for (std::size_t i = oldest_; i < queue_.size(); ++i) {
      Request& r = requests_[queue_[i]];
      if (r.wr_id != e.note || r.completed != kNever) continue;
      r.completed = e.time;
      r.status = e.what;
      e.request = queue_[i];
      if (i == oldest_) ++oldest_;
      return;
    }
  }

  /// Where the time of each went.
  void account() {
    for (const std::uint32_t place : queue_) {
      Request& r = requests_[place];
      const auto answered = answered_.find(place);
      Time end = r.completed;
      if (end == kNever && answered != answered_.end()) end = answered->second;
      if (end == kNever) end = r.last_sent;
      const Time begin = r.posted != kNever ? r.posted : r.first_sent;
      if (end == kNever || begin == kNever) continue;
      if (r.first_sent == kNever) {
        r.waiting = end - begin;
        continue;
      }
      r.waiting = std::max<Time>(0, r.first_sent - begin);
      if (r.packets_again > 0) {
        r.repeating = std::max<Time>(0, std::min(r.last_sent, end) - first_times_[place]);
      }
      r.on_the_wire = std::max<Time>(0, end - begin - r.waiting - r.repeating);
    }
  }

 private:
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

  /// The first packet of a request.
  void begin(const Event& e) {
    current_ = kNone;
    if (traced_) {
      while (next_ < queue_.size() && is_local(requests_[queue_[next_]])) ++next_;
      if (next_ < queue_.size()) current_ = queue_[next_++];
      return;
    }
    current_ = add(e);
    requests_[current_].op = op_of(info_of(e));
    requests_[current_].bytes = length_in(e);
    queue_.push_back(current_);
  }

  void mark_psns(const Event& e) {
    const bool starts = places_.empty() || places_.back().request != e.request;
    std::uint32_t answers = 1;
    if (info_of(e).kind == Kind::read_request && mtu_ != 0) {
      answers = std::max(1u, (length_in(e) + mtu_ - 1) / mtu_);
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
  std::uint32_t mtu_;
  std::vector<std::uint32_t> queue_;  // requests in the order of their posts
  std::size_t next_ = 0;              // the first of queue_ of which nothing was sent
  std::size_t oldest_ = 0;            // all before it are completed
  std::uint32_t current_ = kNone;     // whose packets are being sent
  std::vector<Place> places_;
  std::size_t unanswered_ = 0;                 // in places_
  std::map<std::uint32_t, Time> first_times_;  // the last packet that left for the first time
  std::map<std::uint32_t, Time> answered_;
};

}  // namespace

std::vector<Request> find_requests(const std::vector<Conversation>& conversations,
                                   std::vector<Event>& events) {
  std::vector<Request> requests;
  std::map<std::pair<std::uint32_t, Side>, SendQueue> queues;
  const auto queue = [&](const Event& e, Side side) -> SendQueue& {
    const Conversation& c = conversations[e.conversation];
    return queues.try_emplace({e.conversation, side}, requests, c.end(side).traced, c.mtu)
        .first->second;
  };
  for (Event& e : events) {
    switch (e.kind) {
      case EventKind::post_send:
        queue(e, e.side).posted(e);
        break;
      case EventKind::packet:
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
      case EventKind::post_receive:
      case EventKind::state:
        break;
    }
  }
  for (auto& [end, sends] : queues) sends.account();
  return requests;
}

}  // namespace verbena::report
