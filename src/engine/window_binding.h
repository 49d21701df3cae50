#pragma once

// Memory windows: binding and invalidating (IBA 10.6.6, 10.6.7, 10.8.3.3.4).

#include "engine/queue_pair.h"

namespace verbena::engine {

/// A bind request of this queue pair. MW_BIND_ERR, or success.
[[nodiscard]] CompletionStatus bind_window(Services& services, QueuePair& qp,
                                           const WindowBinding& binding);

/// A local invalidate. Only type 2 windows can be.
[[nodiscard]] CompletionStatus invalidate_locally(Services& services, const QueuePair& qp, Key key);

/// The peer's SEND with invalidate. False: not a window that it may invalidate.
[[nodiscard]] bool invalidate_remotely(Services& services, const QueuePair& qp, Key key);

/// Takes a window off its region, if it is bound.
void unbind(KeyTable& keys, MemoryRegion& window);

/// The queue pair goes, and with it what its type 2 windows grant (IBA 10.6.7.2): its number may
/// soon be another's.
void unbind_windows_of(KeyTable& keys, const QueuePair& qp);

}  // namespace verbena::engine
