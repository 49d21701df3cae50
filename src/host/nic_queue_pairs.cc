// Queue pairs, their paths, groups and flow rules.

#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>

#include "host/nic_state.h"

namespace verbena::host {

namespace {

/// The number of a queue pair that is reset or destroyed may soon mean another one: its old
/// completions must not come up any more.
void discard_completions(Qpn qpn, std::span<engine::CompletionQueue* const> rings) {
  for (engine::CompletionQueue* ring : rings) {
    if (ring == nullptr) continue;
    const std::lock_guard polling{static_cast<CompletionQueue*>(ring->cookie())->polling};
    ring->discard(qpn);
  }
}

/// Destroys the engine's part; the statistics keep what it counted.
Status destroy_and_record(ShardState& s, QueuePair& qp) {
  engine::QueuePair& pair = *qp.pair;
  const std::array rings{pair.send_cq, pair.receive_cq};
  const Qpn qpn = pair.qpn;
  PairRecords& records = s.outputs.pairs();
  std::optional<Statistics::Pair> record;
  if (records.lists_more()) record = pair_of(qp);
  engine::Counters last;
  if (auto destroyed = s.rnic.destroy_qp(pair, s.wires.sink(), &last); !destroyed) {
    return destroyed;
  }
  records.add(qp.device, last);
  if (record) {
    record->counters = last;
    records.list(std::move(*record));
  }
  discard_completions(qpn, rings);
  return Ok{};
}

}  // namespace

Result<QueuePair*> Nic::create_qp(engine::QpInit init, EventSource events) {
  auto qp = std::make_unique<QueuePair>();
  qp->events = events;
  init.cookie = qp.get();
  const auto pair = state_->shard().locked([&](ShardState& s) {
    qp->number = s.next_pair++;
    return s.rnic.create_qp(init);
  });
  if (!pair) return pair.error();
  state_->trimmer().created();
  qp->pair = *pair;
  return qp.release();
}

Result<QueuePair*> Nic::create_raw_qp(engine::QpInit init, const Device& device, EventSource events,
                                      std::optional<Spread> spread) {
  auto sender = wire::PacketSender::open(device.interface_index);
  if (!sender) return sender.error();
  auto qp = create_qp(init, events);
  if (!qp) return qp;
  try {
    state_->shard().locked([&](ShardState& s) {
      s.raw.open(*(*qp)->pair, std::move(*sender), device.interface_index, std::move(spread));
    });
  } catch (const std::bad_alloc&) {
    static_cast<void>(destroy_qp(*qp));
    return Error{ENOMEM, "no memory for a port of raw packets"};
  }
  return qp;
}

Result<FlowRules::Id> Nic::create_flow(QueuePair& qp, FlowRule rule) {
  return state_->shard().locked([&](ShardState& s) {
    auto id = s.raw.add_rule(*qp.pair, std::move(rule));
    if (id) ++qp.rules;
    return id;
  });
}

Status Nic::destroy_flow(QueuePair& qp, FlowRules::Id flow) {
  return state_->shard().locked([&](ShardState& s) {
    Status removed = s.raw.remove_rule(flow);
    if (removed) --qp.rules;
    return removed;
  });
}

Status Nic::modify_qp(QueuePair& qp, const Device& device, engine::QpAttributes attributes,
                      unsigned mask) {
  engine::QueuePair& pair = *qp.pair;
  const auto named = [&](const Error& e) {
    return Error{e.code, fmt::format("qp {:#x}: {}", pair.qpn.value(), e.message)};
  };
  return state_->shard().locked([&](ShardState& s) -> Status {
    if ((mask & engine::Attr::kPathMtu) != 0 && attributes.path_mtu > device.active_mtu()) {
      return named({EINVAL, fmt::format("path_mtu {} exceeds active_mtu {} of port 1 (device {}, "
                                        "interface mtu {}); use a smaller one or raise the "
                                        "interface mtu",
                                        attributes.path_mtu, device.active_mtu(), device.name,
                                        device.interface_mtu)});
    }
    if (qp.device.empty()) {
      s.outputs.pairs().expect(device.name);
      qp.device = device.name;
    }
    // Nothing is opened for a call that will be refused.
    if (auto legal = check_transition(pair.type, pair.state.load(), attributes, mask); !legal) {
      return named(legal.error());
    }
    if ((mask & engine::Attr::kPath) != 0) {
      if (auto opened = s.reachability.open_path(device, pair, attributes); !opened) {
        return named(opened.error());
      }
    }
    const bool to_rtr =
        (mask & engine::Attr::kState) != 0 && attributes.state == engine::QpState::rtr;
    if (to_rtr && pair.type == engine::QpType::ud) {
      if (auto opened = s.reachability.open_datagrams(device, qp); !opened)
        return named(opened.error());
      pair.attributes.path_mtu = device.active_mtu();  // C9-171: a datagram is one packet
    }
    const bool ends =
        (mask & engine::Attr::kState) != 0 &&
        (attributes.state == engine::QpState::error || attributes.state == engine::QpState::reset);
    if (ends) s.rnic.repeat_last_ack(pair, s.wires.sink());
    if (auto modified = s.rnic.modify_qp(pair, attributes, mask); !modified) return modified;
    if (pair.state.load() == engine::QpState::reset) {
      discard_completions(pair.qpn, std::array{pair.send_cq, pair.receive_cq});
    }
    return Ok{};
  });
}

engine::QpAttributes Nic::query_qp(const QueuePair& qp) {
  return state_->shard().locked([&](ShardState&) {
    engine::QpAttributes a = qp.pair->attributes;
    a.state = a.current_state = qp.pair->state.load();
    a.draining = a.state == engine::QpState::sqd && !engine::drained(*qp.pair);
    return a;
  });
}

Result<unsigned> Nic::destroy_qp(QueuePair* qp) {
  auto taken_events = state_->shard().locked([&](ShardState& s) -> Result<unsigned> {
    if (qp->rules != 0) return Error{EBUSY, fmt::format("{} flows still lead to it", qp->rules)};
    s.reachability.leave_groups(*qp);
    s.raw.close(*qp->pair);
    if (auto destroyed = destroy_and_record(s, *qp); !destroyed) return destroyed.error();
    s.reachability.forget(*qp);
    const unsigned taken = forget_events(qp->events);
    delete qp;
    return taken;
  });
  if (taken_events) state_->trimmer().destroyed();
  return taken_events;
}

Result<packet::Flow> Nic::resolve(const Device& device, const engine::AddressVector& path) {
  return state_->shard().locked(
      [&](ShardState& s) { return s.reachability.open_flow(device, path); });
}

Status Nic::attach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  return state_->shard().locked(
      [&](ShardState& s) { return s.reachability.attach_multicast(qp, device, gid); });
}

Status Nic::detach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  return state_->shard().locked(
      [&](ShardState& s) { return s.reachability.detach_multicast(qp, device, gid); });
}

}  // namespace verbena::host
