#include "host/raw_packets/flow_rules.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace verbena::host {

namespace {

using Kind = FlowRule::Kind;

void add_once(std::vector<engine::QueuePair*>& out, engine::QueuePair* qp) {
  if (std::ranges::find(out, qp) == out.end()) out.push_back(qp);
}

}  // namespace

void FlowRules::add(Id id, engine::QueuePair& qp, FlowRule rule) {
  const auto behind =
      std::ranges::find_if(rules_, [&](const Entry& e) { return e.rule.priority > rule.priority; });
  rules_.insert(behind, {id, &qp, std::move(rule)});
}

bool FlowRules::remove(Id id) {
  return std::erase_if(rules_, [&](const Entry& e) { return e.id == id; }) != 0;
}

bool FlowRules::steer(const packet::FrameHeaders& headers,
                      std::vector<engine::QueuePair*>& out) const {
  std::optional<std::uint16_t> taken;  // by a rule of this priority
  for (const Entry& e : rules_) {
    if (taken && e.rule.priority != *taken) break;
    if (e.rule.kind != Kind::normal || !packet::matches(e.rule.patterns, headers)) continue;
    if (!e.rule.drops) add_once(out, e.qp);
    if (!e.rule.goes_on) taken = e.rule.priority;
  }
  return taken.has_value();
}

void FlowRules::receivers(const SeenFrame& frame, const packet::Mac& own,
                          std::vector<engine::QueuePair*>& out) const {
  out.clear();
  const packet::FrameHeaders headers{frame.bytes};
  if (headers.find(packet::FrameLayer::ethernet).empty()) return;
  const packet::Mac to = headers.destination();
  const bool arrives = !frame.outgoing || packet::is_multicast(to) || to == own;
  const bool steered = arrives && steer(headers, out);
  for (const Entry& e : rules_) {
    const Kind kind = e.rule.kind;
    const bool gets =
        kind == Kind::sniffer || (arrives && !steered &&
                                  (kind == Kind::all_default ||
                                   (kind == Kind::multicast_default && packet::is_multicast(to))));
    if (gets) add_once(out, e.qp);
  }
}

}  // namespace verbena::host
