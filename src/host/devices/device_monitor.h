#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/devices/device.h"
#include "host/devices/link_table.h"
#include "host/devices/netlink.h"
#include "host/events/event_channel.h"

namespace verbena::host {

/// The devices as they are now: asks the kernel once, and is told of changes from then on. Whoever
/// watches a device hears of them as asynchronous events. Thread-safe.
class DeviceMonitor {
 public:
  static Result<std::unique_ptr<DeviceMonitor>> create();

  /// Readable when serve() has something to do.
  [[nodiscard]] int fd() const { return news_.fd(); }
  void serve();

  // Both take what the kernel has told up to now first: a change that a program has made, or has
  // seen elsewhere, is there.

  /// Those that are listed, by interface index.
  [[nodiscard]] std::vector<Device> devices();
  /// By name, listed or not. nullopt: its interface is gone.
  [[nodiscard]] std::optional<Device> find(const std::string& name);

  /// Events of the device's port go there, until the channel is unwatched.
  void watch(const std::string& device, EventChannel& channel);
  void unwatch(const EventChannel& channel);

  /// `f` is called after each change, with the monitor's lock: it may only take note of it.
  void on_change(std::function<void()> f);

  /// In a forked child: closes the descriptor. The object is of no more use.
  void abandon() { news_.close(); }

 private:
  struct Watcher {
    std::string device;
    EventChannel* channel;
  };

  DeviceMonitor(LinkNews news, LinkTable links);
  // All of these with the lock.
  void catch_up();
  void take_news();
  void tell(const std::vector<PortChange>& news);

  std::mutex mutex_;
  LinkNews news_;
  LinkTable links_;
  bool stale_ = false;  // something was missed: ask for everything
  std::vector<Device> devices_;
  std::vector<Watcher> watchers_;
  std::function<void()> changed_;
};

}  // namespace verbena::host
