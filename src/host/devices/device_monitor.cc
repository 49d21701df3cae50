#include "host/devices/device_monitor.h"

#include <algorithm>
#include <new>
#include <utility>

#include "host/log.h"

namespace verbena::host {

Result<std::unique_ptr<DeviceMonitor>> DeviceMonitor::create() {
  auto news = LinkNews::subscribe();  // first, so that nothing happens in between
  if (!news) return news.error();
  auto links = ask_for_links();
  if (!links) return links.error();
  return std::unique_ptr<DeviceMonitor>{new DeviceMonitor{std::move(*news), std::move(*links)}};
}

DeviceMonitor::DeviceMonitor(LinkNews news, LinkTable links)
    : news_{std::move(news)}, links_{std::move(links)}, devices_{devices_of(links_)} {}

void DeviceMonitor::serve() {
  const std::lock_guard lock{mutex_};
  catch_up();
}

std::vector<Device> DeviceMonitor::devices() {
  const std::lock_guard lock{mutex_};
  catch_up();
  std::vector<Device> out = devices_;
  std::erase_if(out, [](const Device& d) { return !d.listed; });
  return out;
}

std::optional<Device> DeviceMonitor::find(const std::string& name) {
  const std::lock_guard lock{mutex_};
  catch_up();
  for (const Device& d : devices_) {
    if (d.name == name) return d;
  }
  return std::nullopt;
}

void DeviceMonitor::watch(const std::string& device, EventChannel& channel) {
  const std::lock_guard lock{mutex_};
  catch_up();  // what is past is not for the newcomer
  watchers_.push_back({device, &channel});
}

void DeviceMonitor::unwatch(const EventChannel& channel) {
  const std::lock_guard lock{mutex_};
  std::erase_if(watchers_, [&](const Watcher& w) { return w.channel == &channel; });
}

void DeviceMonitor::on_change(std::function<void()> f) {
  const std::lock_guard lock{mutex_};
  changed_ = std::move(f);
}

/// Without memory the devices stay as they were, and the next one who looks tries again.
void DeviceMonitor::catch_up() try { take_news(); } catch (const std::bad_alloc&) {
  stale_ = true;
}

void DeviceMonitor::take_news() {
  const auto outcome = news_.read(links_);
  stale_ = stale_ || outcome == LinkNews::Outcome::overrun;
  if (outcome == LinkNews::Outcome::nothing && !stale_) return;
  if (stale_) {
    auto asked = ask_for_links();
    if (!asked) {
      log(LogLevel::warn, "changes of network interfaces may be missed: {}", asked.error().message);
      return;
    }
    links_ = std::move(*asked);
  }
  std::vector<Device> now = devices_of(links_);
  const std::vector<PortChange> news = changes(devices_, now);
  devices_ = std::move(now);
  stale_ = false;
  tell(news);
  // Also when the devices are the same: an address that was tentative can be used now.
  if (changed_) changed_();
}

void DeviceMonitor::tell(const std::vector<PortChange>& news) {
  for (const PortChange& change : news) {
    for (const Watcher& w : watchers_) {
      if (w.device != change.device) continue;
      w.channel->raise({static_cast<std::uint8_t>(change.event), nullptr});
    }
  }
}

}  // namespace verbena::host
