// What programs make and destroy, and connections: each call is one on the engine, with its lock.

#include <cerrno>
#include <new>

#include "host/nic_impl.h"
#include "host/program_memory.h"

namespace verbena::host {

std::vector<Device> Nic::devices() { return impl_->monitor->devices(); }

std::optional<Device> Nic::find_device(const std::string& name) {
  return impl_->monitor->find(name);
}

void Nic::watch_port(const std::string& device, EventChannel& channel) {
  impl_->monitor->watch(device, channel);
}

void Nic::unwatch_port(const EventChannel& channel) { impl_->monitor->unwatch(channel); }

Result<engine::PdId> Nic::alloc_pd() {
  return impl_->locked([&] { return impl_->rnic.alloc_pd(); });
}

Status Nic::dealloc_pd(engine::PdId pd) {
  return impl_->locked([&] { return impl_->rnic.dealloc_pd(pd); });
}

namespace {

/// What a region on demand lies on may come later.
Status prepare_region(engine::Segment memory, unsigned access) {
  if ((access & engine::Access::kOnDemand) != 0 || memory.length == 0) return Ok{};
  return prepare_memory(memory, (access & engine::Access::kLocalWrite) != 0);
}

}  // namespace

Result<engine::MemoryRegion> Nic::register_memory(engine::PdId pd, engine::Segment memory,
                                                  std::uint64_t iova, unsigned access) {
  if (auto ready = prepare_region(memory, access); !ready) return ready.error();
  return impl_->locked([&] { return impl_->rnic.register_memory(pd, memory, iova, access); });
}

Result<engine::MemoryRegion> Nic::register_null(engine::PdId pd) {
  return impl_->locked([&] { return impl_->rnic.register_null(pd); });
}

Status Nic::prefetch(engine::PdId pd, const engine::Sge& range, bool write) {
  const auto where = impl_->locked([&]() -> Result<engine::Segment> {
    const engine::MemoryRegion* region = impl_->rnic.find_region(range.lkey);
    const auto refusal = [&](int code, const char* why) {
      return Error{code, fmt::format("lkey {:#x}: {}", range.lkey.value(), why)};
    };
    if (region == nullptr) return refusal(ENOENT, "no such memory region");
    if (region->pd != pd) return refusal(EPERM, "of another protection domain");
    if ((region->access & engine::Access::kOnDemand) == 0) {
      return refusal(EINVAL, "not registered with IBV_ACCESS_ON_DEMAND");
    }
    if (write && (region->access & engine::Access::kLocalWrite) == 0) {
      return refusal(EPERM, "not registered for writing");
    }
    if (!region->contains(range.address, range.length)) return refusal(EINVAL, "beyond its end");
    return engine::Segment{region->translate(range.address), range.length};
  });
  if (!where) return where.error();
  return where->length == 0 ? Status{Ok{}} : prepare_memory(*where, write);
}

Status Nic::deregister_memory(Key key) {
  return impl_->locked([&] { return impl_->rnic.deregister_memory(key); });
}

Result<engine::MemoryRegion> Nic::reregister_memory(Key key, std::optional<engine::PdId> pd,
                                                    std::optional<engine::Segment> memory,
                                                    std::optional<unsigned> access) {
  auto present = impl_->locked([&]() -> Result<engine::MemoryRegion> {
    const engine::MemoryRegion* found = impl_->rnic.find_region(key);
    if (found == nullptr) return Error{EINVAL, "no such memory region"};
    return *found;
  });
  if (!present) return present;
  const engine::Segment range = memory.value_or(engine::Segment{present->address, present->length});
  if (present->address == engine::Segment::kNull) return Error{EINVAL, "it is the null region"};
  if (auto ready = prepare_region(range, access.value_or(present->access)); !ready) {
    return ready.error();
  }
  return impl_->locked([&] { return impl_->rnic.reregister_memory(key, pd, memory, access); });
}

Result<Key> Nic::alloc_window(engine::PdId pd, engine::MemoryRegion::Type type) {
  return impl_->locked([&] { return impl_->rnic.alloc_window(pd, type); });
}

Status Nic::dealloc_window(Key key) {
  return impl_->locked([&] { return impl_->rnic.dealloc_window(key); });
}

Result<engine::XrcdId> Nic::open_xrcd() {
  return impl_->locked([&] { return impl_->rnic.open_xrcd(); });
}

Status Nic::close_xrcd(engine::XrcdId xrcd) {
  return impl_->locked([&] { return impl_->rnic.close_xrcd(xrcd); });
}

namespace {

Status check_entries(std::uint32_t entries) {
  if (entries > 0 && entries <= engine::Limits::kMaxCompletions) return Ok{};
  return Error{EINVAL, fmt::format("{} entries; a completion queue has 1 to {}", entries,
                                   engine::Limits::kMaxCompletions)};
}

}  // namespace

Status Nic::resize_cq(CompletionQueue& cq, std::uint32_t entries) {
  if (auto legal = check_entries(entries); !legal) return legal;
  return impl_->locked([&]() -> Status {
    const std::lock_guard polling{cq.polling};
    if (cq.ring.resize(entries)) return Ok{};
    return Error{EINVAL, fmt::format("more than {} completions wait in it", entries)};
  });
}

Result<CompletionQueue*> Nic::create_cq(std::uint32_t entries, CompletionChannel* channel,
                                        EventSource events, CompletionQueue::Overrun overrun) {
  if (auto legal = check_entries(entries); !legal) return legal.error();
  return new CompletionQueue{entries, channel, events, overrun};
}

void Nic::moderate_cq(CompletionQueue& cq, std::uint16_t count, Duration period) {
  impl_->locked([&] {
    cq.ring.moderate(count, period);
    return true;
  });
}

Nic::Unacknowledged Nic::silence(CompletionQueue& cq) {
  return impl_->locked([&] {
    return Unacknowledged{.completions = cq.channel != nullptr ? cq.channel->forget(cq) : 0,
                          .asynchronous = host::silence(cq.events)};
  });
}

Status Nic::destroy_cq(CompletionQueue* cq) {
  return impl_->locked([&]() -> Status {
    if (cq->ring.users != 0) {
      return Error{EBUSY, fmt::format("{} queues still complete into it", cq->ring.users)};
    }
    if (cq->channel != nullptr) cq->channel->forget(*cq);
    host::silence(cq->events);
    impl_->rnic.forget(cq->ring);
    delete cq;
    return Ok{};
  });
}

Result<SharedReceiveQueue*> Nic::create_srq(engine::SrqInit init, EventSource events) {
  auto srq = std::make_unique<SharedReceiveQueue>();
  srq->events = events;
  init.cookie = srq.get();
  const auto queue = impl_->locked([&] { return impl_->rnic.create_srq(init); });
  if (!queue) return queue.error();
  srq->queue = *queue;
  return srq.release();
}

Status Nic::set_srq_limit(SharedReceiveQueue& srq, std::uint32_t limit) {
  return impl_->locked([&] { return impl_->rnic.set_srq_limit(*srq.queue, limit); });
}

std::uint32_t Nic::srq_limit(const SharedReceiveQueue& srq) {
  return impl_->locked([&] { return srq.queue->limit; });
}

Result<unsigned> Nic::destroy_srq(SharedReceiveQueue* srq) {
  return impl_->locked([&]() -> Result<unsigned> {
    if (auto destroyed = impl_->rnic.destroy_srq(*srq->queue); !destroyed) {
      return destroyed.error();
    }
    const unsigned taken = host::silence(srq->events);
    delete srq;
    return taken;
  });
}

Result<QueuePair*> Nic::create_qp(engine::QpInit init, EventSource events) {
  auto qp = std::make_unique<QueuePair>();
  qp->events = events;
  init.cookie = qp.get();
  const auto pair = impl_->locked([&] {
    qp->number = impl_->next_pair++;
    return impl_->rnic.create_qp(init);
  });
  if (!pair) return pair.error();
  impl_->queue_pairs.joined();
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
    impl_->locked([&] {
      impl_->raw.open(*(*qp)->pair, std::move(*sender), device.interface_index, std::move(spread));
      return true;
    });
  } catch (const std::bad_alloc&) {
    static_cast<void>(destroy_qp(*qp));
    return Error{ENOMEM, "no memory for a port of raw packets"};
  }
  return qp;
}

Result<FlowRules::Id> Nic::create_flow(QueuePair& qp, FlowRule rule) {
  return impl_->locked([&] {
    auto id = impl_->raw.add_rule(*qp.pair, std::move(rule));
    if (id) ++qp.rules;
    return id;
  });
}

Status Nic::destroy_flow(QueuePair& qp, FlowRules::Id flow) {
  return impl_->locked([&] {
    Status removed = impl_->raw.remove_rule(flow);
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
  return impl_->locked([&]() -> Status {
    if ((mask & engine::Attr::kPathMtu) != 0 && attributes.path_mtu > device.active_mtu()) {
      return named({EINVAL, fmt::format("path_mtu {} exceeds active_mtu {} of port 1 (device {}, "
                                        "interface mtu {}); use a smaller one or raise the "
                                        "interface mtu",
                                        attributes.path_mtu, device.active_mtu(), device.name,
                                        device.interface_mtu)});
    }
    if (qp.device.empty()) {
      impl_->outputs().pairs().expect(device.name);
      qp.device = device.name;
    }
    // Nothing is opened for a call that will be refused.
    if (auto legal = check_transition(pair.type, pair.state.load(), attributes, mask); !legal) {
      return named(legal.error());
    }
    if ((mask & engine::Attr::kPath) != 0) {
      if (auto opened = impl_->open_path(device, pair, attributes); !opened) {
        return named(opened.error());
      }
    }
    const bool to_rtr =
        (mask & engine::Attr::kState) != 0 && attributes.state == engine::QpState::rtr;
    if (to_rtr && pair.type == engine::QpType::ud) {
      if (auto opened = impl_->open_datagrams(device, qp); !opened) return named(opened.error());
      pair.attributes.path_mtu = device.active_mtu();  // C9-171: a datagram is one packet
    }
    const bool ends =
        (mask & engine::Attr::kState) != 0 &&
        (attributes.state == engine::QpState::error || attributes.state == engine::QpState::reset);
    if (ends) impl_->rnic.say_farewell(pair, impl_->wire());
    if (auto modified = impl_->rnic.modify_qp(pair, attributes, mask); !modified) return modified;
    if (pair.state.load() == engine::QpState::reset) {
      Impl::discard_completions(pair.qpn, std::array{pair.send_cq, pair.receive_cq});
    }
    return Ok{};
  });
}

engine::QpAttributes Nic::query_qp(const QueuePair& qp) {
  return impl_->locked([&] {
    engine::QpAttributes a = qp.pair->attributes;
    a.state = a.current_state = qp.pair->state.load();
    a.draining = a.state == engine::QpState::sqd && !engine::drained(*qp.pair);
    return a;
  });
}

Result<unsigned> Nic::destroy_qp(QueuePair* qp) {
  auto taken_events = impl_->locked([&]() -> Result<unsigned> {
    if (qp->rules != 0) return Error{EBUSY, fmt::format("{} flows still lead to it", qp->rules)};
    impl_->leave_groups(*qp);
    impl_->raw.close(*qp->pair);
    if (auto destroyed = impl_->destroy_qp(*qp); !destroyed) return destroyed.error();
    impl_->forget(*qp);
    const unsigned taken = host::silence(qp->events);
    delete qp;
    return taken;
  });
  if (taken_events) impl_->queue_pairs.left();
  return taken_events;
}

Result<packet::Flow> Nic::resolve(const Device& device, const engine::AddressVector& path) {
  return impl_->locked([&] { return impl_->open_flow(device, path); });
}

Status Nic::attach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  return impl_->locked([&] { return impl_->attach_multicast(qp, device, gid); });
}

Status Nic::detach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid) {
  return impl_->locked([&] { return impl_->detach_multicast(qp, device, gid); });
}

// ---- connections

Status Nic::open_address(const Device& device, const IpAddress& address) {
  return impl_->locked([&] { return impl_->open_address(address, device.interface_index); });
}

Status Nic::open_everywhere(wire::Family family) {
  return impl_->locked([&] { return impl_->open_everywhere(family); });
}

Result<wire::BoundPort> Nic::bind_port(const wire::PortBinding& binding) {
  return impl_->locked([&] { return impl_->wire().bind_port(binding); });
}

Status Nic::listen_port(wire::PortId port) {
  return impl_->locked([&] { return impl_->wire().listen_port(port); });
}

void Nic::release_port(wire::PortId port) {
  impl_->locked([&] {
    impl_->wire().release_port(port);
    return true;
  });
}

void Nic::manage(const std::function<void(cm::ConnectionManager&, Instant)>& f) {
  impl_->locked([&] {
    f(impl_->manager, now());
    impl_->send_and_sort();
    return true;
  });
}

bool Nic::manage_within(Duration patience,
                        const std::function<void(cm::ConnectionManager&, Instant)>& f) {
  return impl_->locked_within(patience, [&] { f(impl_->manager, now()); });
}

std::vector<cm::Event> Nic::take_connection_events() { return impl_->take_connection_events(); }

void Nic::observe_connections(ConnectionObserver* observer) { impl_->observe(observer); }

}  // namespace verbena::host
