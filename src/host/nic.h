#pragma once

// The process's NIC: the one public face of src/host.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cm/event.h"
#include "engine/rnic.h"
#include "host/completion_queue.h"
#include "host/connections/connection_observer.h"
#include "host/connections/ports.h"
#include "host/devices/device.h"
#include "host/events/completion_channel.h"
#include "host/events/event_channel.h"
#include "host/observation/statistics.h"
#include "host/queue_pair.h"
#include "host/raw_packets/flow_rules.h"
#include "host/raw_packets/spread.h"

namespace verbena::cm {
class ConnectionManager;
}

namespace verbena::host {

class Nic {
 public:
  /// Started by the first call. After fork() the child's first call starts a new one; objects
  /// of the parent's are then only good for being forgotten.
  static Result<Nic*> instance();

  /// The process is about to end without its exit handlers. Any thread, signal handlers too.
  static void before_sudden_exit();

  // Devices. Thread-safe. As they are now: what has changed before the call is seen.

  /// Those that are listed, by interface index.
  [[nodiscard]] std::vector<Device> devices();
  /// By name, listed or not. nullopt: its interface is gone.
  [[nodiscard]] std::optional<Device> find_device(const std::string& name);
  /// Events of the device's port go there, until the channel is unwatched.
  void watch_port(const std::string& device, EventChannel& channel);
  void unwatch_port(const EventChannel& channel);
  /// What has passed the device's port and what its queue pairs have counted, up to now.
  [[nodiscard]] Statistics::Port port_statistics(const Device& device);

  // Set-up. Thread-safe.

  [[nodiscard]] Result<engine::PdId> alloc_pd();
  Status dealloc_pd(engine::PdId pd);
  /// EFAULT where the program itself couldn't read (or, with a write access, write) the range.
  [[nodiscard]] Result<engine::MemoryRegion> register_memory(engine::PdId pd,
                                                             engine::Segment memory,
                                                             std::uint64_t iova, unsigned access);
  /// The address lies in memory that only a GPU can reach. Any thread.
  [[nodiscard]] static bool is_gpu_memory(std::uint64_t address);
  /// For data that the CPU is about to copy: as is_gpu_memory(), without a cost for programs that
  /// have registered none.
  [[nodiscard]] static bool is_out_of_reach(std::uint64_t address);
  /// The program has loaded a driver of GPUs whose memory can be registered. Any thread.
  [[nodiscard]] static bool has_gpu_driver();
  [[nodiscard]] Result<engine::MemoryRegion> register_null(engine::PdId pd);
  /// Has pages of an on-demand region present, as a hint or (`write`) for writing. ENOENT: no such
  /// region; EINVAL: not one on demand, or beyond it; EPERM: of another domain, or it can't be
  /// written; EFAULT: the program has no such memory.
  Status prefetch(engine::PdId pd, const engine::Sge& range, bool write);
  Status deregister_memory(Key key);
  /// What is not named stays; so does the key.
  [[nodiscard]] Result<engine::MemoryRegion> reregister_memory(
      Key key, std::optional<engine::PdId> pd, std::optional<engine::Segment> memory,
      std::optional<unsigned> access);
  [[nodiscard]] Result<Key> alloc_window(engine::PdId pd, engine::MemoryRegion::Type type);
  Status dealloc_window(Key key);
  [[nodiscard]] Result<engine::XrcdId> open_xrcd();
  /// EBUSY while queues are in it.
  Status close_xrcd(engine::XrcdId xrcd);
  [[nodiscard]] Result<CompletionQueue*> create_cq(std::uint32_t entries,
                                                   CompletionChannel* channel, EventSource* events,
                                                   CompletionQueue::Overrun overrun = {});
  /// EINVAL when more completions wait than would fit.
  Status resize_cq(CompletionQueue& cq, std::uint32_t entries);
  /// Events wait for `count` completions, or `period` after the first. See engine's.
  void moderate_cq(CompletionQueue& cq, std::uint16_t count, Duration period);
  /// Events of a completion queue that the program took and has to acknowledge.
  struct Unacknowledged {
    unsigned completions = 0;
    unsigned asynchronous = 0;
  };
  /// There are no more events of `cq` from here on.
  [[nodiscard]] Unacknowledged stop_events(CompletionQueue& cq);
  /// EBUSY while a queue pair uses it.
  Status destroy_cq(CompletionQueue* cq);
  [[nodiscard]] Result<SharedReceiveQueue*> create_srq(const engine::SrqInit& init,
                                                       EventSource* events);
  Status set_srq_limit(SharedReceiveQueue& srq, std::uint32_t limit);
  [[nodiscard]] std::uint32_t srq_limit(const SharedReceiveQueue& srq);
  /// EBUSY while queue pairs use it. Returns how many of its events the program took.
  [[nodiscard]] Result<unsigned> destroy_srq(SharedReceiveQueue* srq);
  [[nodiscard]] Result<QueuePair*> create_qp(const engine::QpInit& init,
                                             EventSource* events = nullptr);
  /// One of raw packets, which are the device's interface's. EPERM without CAP_NET_RAW. What a
  /// `spread` names outlives it.
  [[nodiscard]] Result<QueuePair*> create_raw_qp(const engine::QpInit& init, const Device& device,
                                                 EventSource* events,
                                                 std::optional<Spread> spread = {});
  /// From now on a raw packet queue pair gets the frames that the rule names. EPERM.
  [[nodiscard]] Result<FlowRules::Id> create_flow(QueuePair& qp, FlowRule rule);
  Status destroy_flow(QueuePair& qp, FlowRules::Id flow);
  /// Resolves attributes.path with the device's GIDs and opens what the path needs; for datagrams,
  /// all of the device's addresses.
  Status modify_qp(QueuePair& qp, const Device& device, engine::QpAttributes attributes,
                   unsigned mask);
  /// `state` is the present one, whatever was set last.
  [[nodiscard]] engine::QpAttributes query_qp(const QueuePair& qp);
  /// Returns how many of its events the program took. EBUSY while flow rules lead to it.
  [[nodiscard]] Result<unsigned> destroy_qp(QueuePair* qp);
  /// The way of datagrams to an address. Its source port is each sender's own.
  [[nodiscard]] Result<packet::Flow> resolve(const Device& device,
                                             const engine::AddressVector& path);
  /// UD: joins the group on the device's interface. `gid` as group_of() knows it.
  Status attach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid);
  Status detach_multicast(QueuePair& qp, const Device& device, const IpAddress& gid);

  // Connections. Thread-safe.

  /// Requests to `address` are heard, and messages can leave from it.
  Status open_address(const Device& device, const IpAddress& address);
  /// Messages from `source`, which is open, can get there.
  Status check_destination(const IpAddress& source, const IpAddress& destination);
  /// The same for all addresses of a family, also for those that devices get later.
  Status open_wildcard(AddressFamily family);
  /// A port of rdma_cm's port spaces, among all processes of the host. See registry/registry.h.
  [[nodiscard]] Result<BoundPort> bind_port(const PortBinding& binding);
  Status listen_port(PortId port);
  void release_port(PortId port);
  /// Runs `f` on the connection manager, and sends what it left to send.
  void manage(const std::function<void(cm::ConnectionManager&, Instant)>& f);
  /// At the end of the process, where the thread that holds the shard lock may never release it.
  /// False: it didn't within `patience`.
  bool manage_within(Duration patience,
                     const std::function<void(cm::ConnectionManager&, Instant)>& f);
  /// In the order in which they happened, if one caller at a time takes them.
  [[nodiscard]] std::vector<cm::Event> take_connection_events();
  /// nullptr: nobody. The observer lives as long as the process.
  void observe_connections(ConnectionObserver* observer);

  // The data path. Thread-safe; never waits for the shard lock.

  /// Of a datagram, `r.destination.flow` is what resolve() gave.
  [[nodiscard]] engine::PostResult post_send(QueuePair& qp, engine::SendRequest r);
  [[nodiscard]] engine::PostResult post_receive(QueuePair& qp, const engine::ReceiveRequest& r);
  [[nodiscard]] engine::PostResult post_receive(SharedReceiveQueue& srq,
                                                const engine::ReceiveRequest& r);
  /// A list of which all or none are posted. One caller at a time, and nobody posts to the queue
  /// pair meanwhile. `staged` others wait before it.
  [[nodiscard]] static engine::PostResult stage_send(QueuePair& qp, engine::SendRequest r,
                                                     std::uint32_t staged);
  [[nodiscard]] engine::PostResult publish_sends(QueuePair& qp, std::uint32_t staged);
  /// After a list of post_send(): sends at once if the shard lock is free, else its holder will. A
  /// queue pair that is busy may wait for more, see decision 013.
  void kick(QueuePair& qp);
  /// What is there already.
  [[nodiscard]] static std::size_t take(CompletionQueue& cq, std::span<engine::Completion> out);
  /// Makes progress when there is nothing to take.
  [[nodiscard]] std::size_t poll(CompletionQueue& cq, std::span<engine::Completion> out);
  /// Takes an event of this channel, as CompletionChannel::get(). While it waits, the calling
  /// thread receives what other processes of the host send.
  [[nodiscard]] Result<CompletionQueue*> get_event(CompletionChannel& channel);
  /// Before a channel goes.
  void forget_channel(const CompletionChannel& channel);
  /// The program is about to sleep: one event at the next completion (or solicited one).
  void arm(CompletionQueue& cq, bool solicited_only);

 private:
  class State;
  explicit Nic(std::unique_ptr<State> state);
  ~Nic();
  std::unique_ptr<State> state_;
};

}  // namespace verbena::host
