#include "engine/window_binding.h"

namespace verbena::engine {

namespace {

constexpr unsigned kRemote = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;

bool same_window(Key a, Key b) { return a.value() >> 8 == b.value() >> 8; }

bool invalidate(Services& services, const QueuePair& qp, Key key) {
  MemoryRegion* window = services.keys.find(key);
  if (window == nullptr || window->type != MemoryRegion::Type::window_2 || !window->bound ||
      window->owner != qp.qpn) {
    return false;
  }
  unbind(services.keys, *window);
  return true;
}

}  // namespace

void unbind(KeyTable& keys, MemoryRegion& window) {
  if (!window.bound) return;
  if (MemoryRegion* parent = keys.find(window.parent)) --parent->windows;
  window.bound = false;
  window.parent = Key{};
}

void unbind_windows_of(KeyTable& keys, const QueuePair& qp) {
  if (!qp.has_bound) return;  // most never do, and need not look at every key
  keys.for_each([&](MemoryRegion& r) {
    if (r.type == MemoryRegion::Type::window_2 && r.bound && r.owner == qp.qpn) unbind(keys, r);
  });
}

CompletionStatus bind_window(Services& services, QueuePair& qp, const WindowBinding& b) {
  constexpr auto kRefused = CompletionStatus::window_bind_error;
  MemoryRegion* window = services.keys.find_window(b.window);
  if (window == nullptr || window->type == MemoryRegion::Type::region || window->pd != qp.pd) {
    return kRefused;
  }
  const bool type_2 = window->type == MemoryRegion::Type::window_2;
  // C10-75: a type 2 window must be invalidated before it is bound again.
  if (type_2 && window->bound) return kRefused;
  if (!same_window(b.window, b.new_key)) return kRefused;

  MemoryRegion* parent = b.length == 0 ? nullptr : services.keys.find(b.region);
  if (b.length > 0) {
    const bool granted = parent != nullptr && parent->type == MemoryRegion::Type::region &&
                         parent->pd == qp.pd && (parent->access & Access::kBindWindow) != 0;
    if (!granted || !parent->contains(b.address, b.length)) return kRefused;
    // C10-72: a window grants no write that its region doesn't.
    const bool writes = (b.access & (Access::kRemoteWrite | Access::kRemoteAtomic)) != 0;
    if (writes && (parent->access & Access::kLocalWrite) == 0) return kRefused;
  } else if (type_2) {
    return kRefused;
  }

  MemoryRegion bound = *window;
  unbind(services.keys, *window);
  if (parent != nullptr) {
    ++parent->windows;
    bound.bound = true;
    bound.parent = b.region;
    bound.owner = qp.qpn;
    bound.access = b.access & kRemote;
    bound.address = parent->translate(b.address);
    bound.backing = parent->backing;
    bound.iova = (b.access & Access::kZeroBased) != 0 ? 0 : b.address;
    bound.length = b.length;
  } else {
    bound.bound = false;  // type 1 of length 0: unbound (IBA 11.2.8.11)
  }
  bound.key = b.new_key;
  services.keys.erase(window->key);
  services.keys.insert(bound);
  qp.has_bound = qp.has_bound || type_2;
  return CompletionStatus::success;
}

CompletionStatus invalidate_locally(Services& services, const QueuePair& qp, Key key) {
  return invalidate(services, qp, key) ? CompletionStatus::success
                                       : CompletionStatus::local_qp_error;
}

bool invalidate_remotely(Services& services, const QueuePair& qp, Key key) {
  return invalidate(services, qp, key);
}

}  // namespace verbena::engine
