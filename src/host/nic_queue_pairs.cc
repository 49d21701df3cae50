// Queue pairs, their paths, groups and flow rules.

#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "host/nic_state.h"

namespace verbena::host {

namespace {

/// The number of a queue pair that is reset or destroyed may soon mean another one: its old
/// completions must not come up any more.
void discard_completions(Qpn qpn, std::span<engine::CompletionQueue* const> rings) {
  for (engine::CompletionQueue* ring : rings) {
    if (ring == nullptr) continue;
    const std::lock_guard polling{host_of(*ring).polling};
    ring->discard(qpn);
  }
}

/// The statistics keep what it counted.
Status destroy_and_record(ShardState& s, QueuePair& qp) {
  const std::array rings{qp.send_cq, qp.receive_cq};
  const Qpn qpn = qp.qpn;
  PairRecords& records = s.outputs.pairs();
  std::optional<Statistics::Pair> record;
  if (records.lists_more()) {
    record = pair_of(qp, s.wires->expected_way(qp.attributes.flow, qp.attributes.dest_qpn));
  }
  const std::string device = qp.device;
  engine::Counters last;
  if (auto destroyed = s.rnic.destroy_qp(qp, *s.wires, &last); !destroyed) return destroyed;
  records.add(device, last);
  if (record) {
    record->counters = last;
    records.list(std::move(*record));
  }
  discard_completions(qpn, rings);
  return Ok{};
}

}  // namespace

Result<QueuePair*> Nic::create_qp(const engine::QpInit& init, EventSource* events) {
  auto qp = state_->shard_of(init.pd).locked(
      [&](ShardState& s) { return s.rnic.create_qp<QueuePair>(init, events, s.next_pair++); });
  if (qp) state_->trimmer().created();
  return qp;
}

Result<QueuePair*> Nic::create_raw_qp(const engine::QpInit& init, const Device& device,
                                      EventSource* events, std::optional<Spread> spread) {
  auto sender = wire::PacketSender::open(device.interface_index);
  if (!sender) return sender.error();
  auto qp = create_qp(init, events);
  if (!qp) return qp;
  try {
    state_->shard_of(**qp).locked([&](ShardState& s) {
      s.raw.open(**qp, std::move(*sender), device.interface_index, std::move(spread));
    });
  } catch (const std::bad_alloc&) {
    static_cast<void>(destroy_qp(*qp));
    return Error{ENOMEM, "no memory for a port of raw packets"};
  }
  return qp;
}

Result<FlowRules::Id> Nic::create_flow(QueuePair& qp, FlowRule rule) {
  return state_->shard_of(qp).locked([&](ShardState& s) {
    auto id = s.raw.add_rule(qp, std::move(rule));
    if (id) ++qp.rules;
    return id;
  });
}

Status Nic::destroy_flow(QueuePair& qp, FlowRules::Id flow) {
  return state_->shard_of(qp).locked([&](ShardState& s) {
    Status removed = s.raw.remove_rule(flow);
    if (removed) --qp.rules;
    return removed;
  });
}

Status Nic::modify_qp(QueuePair& qp, const Device& device, engine::QpAttributes attributes,
                      unsigned mask) {
  const auto named = [&](const Error& e) {
    return Error{e.code, fmt::format("qp {:#x}: {}", qp.qpn.value(), e.message)};
  };
  return state_->shard_of(qp).locked([&](ShardState& s) -> Status {
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
    if (auto legal = check_transition(qp.type, qp.state.load(), attributes, mask); !legal) {
      return named(legal.error());
    }
    if ((mask & engine::Attr::kPath) != 0) {
      if (auto opened = s.reachability.open_path(device, qp, attributes); !opened) {
        return named(opened.error());
      }
    }
    const bool to_rtr =
        (mask & engine::Attr::kState) != 0 && attributes.state == engine::QpState::rtr;
    if (to_rtr && qp.connected()) {
      auto reachable = s.reachability.check_peer(attributes.flow, attributes.dest_qpn);
      if (!reachable) return named(reachable.error());
    }
    if (to_rtr && qp.type == engine::QpType::ud) {
      if (auto opened = s.reachability.open_datagrams(device, qp); !opened)
        return named(opened.error());
      qp.attributes.path_mtu = device.active_mtu();  // C9-171: a datagram is one packet
    }
    const bool ends =
        (mask & engine::Attr::kState) != 0 &&
        (attributes.state == engine::QpState::error || attributes.state == engine::QpState::reset);
    if (ends) s.rnic.repeat_last_ack(qp, *s.wires);
    if (auto modified = s.rnic.modify_qp(qp, attributes, mask); !modified) return modified;
    if (qp.state.load() == engine::QpState::reset) {
      discard_completions(qp.qpn, std::array{qp.send_cq, qp.receive_cq});
    }
    return Ok{};
  });
}

engine::QpAttributes Nic::query_qp(const QueuePair& qp) {
  return state_->shard_of(qp).locked([&](ShardState&) {
    engine::QpAttributes a = qp.attributes;
    a.state = a.current_state = qp.state.load();
    a.draining = a.state == engine::QpState::sqd && !engine::drained(qp);
    return a;
  });
}

Result<unsigned> Nic::destroy_qp(QueuePair* qp) {
  auto taken_events = state_->shard_of(*qp).locked([&](ShardState& s) -> Result<unsigned> {
    if (qp->rules != 0) return Error{EBUSY, fmt::format("{} flows still lead to it", qp->rules)};
    s.reachability.leave_groups(*qp);
    s.reachability.forget(*qp);
    s.raw.close(*qp);
    const EventSource* const events = qp->events;
    if (auto destroyed = destroy_and_record(s, *qp); !destroyed) return destroyed.error();
    return forget_events(events);
  });
  if (taken_events) state_->trimmer().destroyed();
  return taken_events;
}

Result<packet::Flow> Nic::resolve(const Device& device, const engine::AddressVector& path) {
  return state_->gsi_shard().locked(
      [&](ShardState& s) { return s.reachability.open_flow(device, path); });
}

Status Nic::attach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  return state_->shard_of(qp).locked(
      [&](ShardState& s) { return s.reachability.attach_multicast(qp, device, gid); });
}

Status Nic::detach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  return state_->shard_of(qp).locked(
      [&](ShardState& s) { return s.reachability.detach_multicast(qp, device, gid); });
}

}  // namespace verbena::host
