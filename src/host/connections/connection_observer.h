#pragma once

#include <atomic>

namespace verbena::host {

/// Is told when connections have events. Called without locks of the NIC's, by any thread that
/// makes progress, but never from within manage().
class ConnectionObserver {
 public:
  enum class Wait : bool { no, yes };
  /// False: it would have to wait.
  virtual bool connection_events(Wait wait) = 0;

 protected:
  ~ConnectionObserver() = default;
};

/// Whether connection events wait, and who is told of them. Any thread, without the shard lock: the
/// observer takes the events with a lock of its own held.
class ConnectionNotifier {
 public:
  void observe(ConnectionObserver* observer) { observer_.store(observer); }

  void set_pending(bool pending) { pending_.store(pending, std::memory_order_relaxed); }

  [[nodiscard]] bool pending() const { return pending_.load(std::memory_order_relaxed); }

  /// False: a thread that may wait has to do it.
  [[nodiscard]] bool notify(ConnectionObserver::Wait wait) {
    ConnectionObserver* const observer = observer_.load();
    return observer == nullptr || observer->connection_events(wait);
  }

 private:
  std::atomic<bool> pending_{false};
  std::atomic<ConnectionObserver*> observer_{nullptr};
};

}  // namespace verbena::host
