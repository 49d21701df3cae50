#pragma once

// The RNIC without I/O: bytes and an instant in; frames, completions, events and the next
// deadline out. One caller at a time, except where a function says "any thread".

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/entropy.h"
#include "base/result.h"
#include "base/time.h"
#include "engine/attributes.h"
#include "engine/completion_queue.h"
#include "engine/counters.h"
#include "engine/doorbell.h"
#include "engine/key_table.h"
#include "engine/qp_table.h"
#include "engine/queue_pair.h"
#include "engine/run_queue.h"
#include "engine/setup_error.h"
#include "engine/shared_receive_queue.h"
#include "engine/timer_queue.h"
#include "memory/null_memory.h"
#include "packet/ethernet_sink.h"
#include "packet/frame.h"
#include "packet/packet.h"

namespace verbena::engine {

/// What one RNIC can do; the verbs report these.
struct Limits {
  /// Three quarters of a slot: a free number is then found at once.
  static constexpr std::uint32_t kMaxQueuePairs = 3u << (Qpn::kIndexBits - 2);
  static constexpr std::uint32_t kMaxQueueDepth = 32'768;
  static constexpr std::uint32_t kMaxSge = 32;
  static constexpr std::uint32_t kMaxInline = 1024;
  static constexpr std::uint32_t kMaxCompletions = 1u << 22;
  static constexpr std::uint8_t kMaxRdAtomic =
      128;  // as the kernel's rxe: perftest takes the peer's
  static constexpr std::uint32_t kMaxRegions = 1u << 20;
  static constexpr std::uint32_t kMaxDomains = 1u << 16;
  static constexpr std::uint32_t kMaxSharedQueues = 1u << 16;
  static constexpr std::uint32_t kMaxMulticastGroups = 8192;
  static constexpr std::uint32_t kMaxMulticastMembers = 256;  // of one group
};

using verbena::Entropy;

class Rnic {
 public:
  /// `slot` is the part of the QPN space that is ours.
  /// `program` copies to and from the program's own memory. Memory of other kinds is registered
  /// with a Segment that names its own.
  Rnic(std::uint32_t slot, memory::Dma& program, Entropy& entropy);
  ~Rnic();
  Rnic(const Rnic&) = delete;
  Rnic& operator=(const Rnic&) = delete;

  /// What packets for us wait in, in truesize; senders ask (see Pace).
  void set_receive_buffer(std::uint32_t bytes) { services_.receive_buffer = bytes; }

  // Set-up. Without memory: ENOMEM, and nothing has changed.

  [[nodiscard]] Result<PdId> alloc_pd();
  Status dealloc_pd(PdId pd);
  /// The caller has checked that the program may use the range so.
  [[nodiscard]] Result<MemoryRegion> register_memory(PdId pd, Segment memory, std::uint64_t iova,
                                                     unsigned access);
  /// Local memory at every address: reads as zeros, and what is written is dropped.
  [[nodiscard]] Result<MemoryRegion> register_null(PdId pd);
  [[nodiscard]] bool is_null(const MemoryRegion& region) const {
    return region.backing == &null_memory_;
  }
  /// The kind of memory that a segment is of. Any thread.
  [[nodiscard]] memory::Dma& kind_of(const Segment& memory) const {
    return memory.backing != nullptr ? *memory.backing : program_memory_;
  }
  /// EBUSY while windows are bound to it.
  Status deregister_memory(Key key);
  /// nullptr: no such region.
  [[nodiscard]] const MemoryRegion* find_region(Key key) const;
  /// Another domain, range or access for a region; what is not named stays (IBA 11.2.8.4). So
  /// does the key: peers that have it go on with what it now permits, as on other devices.
  [[nodiscard]] Result<MemoryRegion> reregister_memory(Key key, std::optional<PdId> pd,
                                                       std::optional<Segment> memory,
                                                       std::optional<unsigned> access);
  /// A window that is bound to nothing yet.
  [[nodiscard]] Result<Key> alloc_window(PdId pd, MemoryRegion::Type type);
  Status dealloc_window(Key key);
  [[nodiscard]] Result<XrcdId> open_xrcd();
  /// EBUSY while queues are in it.
  Status close_xrcd(XrcdId xrcd);
  /// Before a completion queue goes.
  void forget(const CompletionQueue& cq);
  /// `Queue` may derive from SharedReceiveQueue: it is made of (number, init, more…).
  template <typename Queue = SharedReceiveQueue, typename... More>
  [[nodiscard]] Result<Queue*> create_srq(const SrqInit& init, More&&... more);
  Status set_srq_limit(SharedReceiveQueue& srq, std::uint32_t limit);
  /// EBUSY while queue pairs use it.
  Status destroy_srq(SharedReceiveQueue& srq);
  /// `Pair` may derive from QueuePair: it is made of (number, init, more…).
  template <typename Pair = QueuePair, typename... More>
  [[nodiscard]] Result<Pair*> create_qp(const QpInit& init, More&&... more);
  Status modify_qp(QueuePair& qp, const QpAttributes& to, unsigned mask);
  /// Before the program ends its service, by another state or by destroying it: what it executed is
  /// acknowledged, for the program may know of it.
  void repeat_last_ack(QueuePair& qp, packet::FrameSink& sink);
  /// `sink` takes the last words to the peer, `last` what it counted.
  Status destroy_qp(QueuePair& qp, packet::FrameSink& sink, Counters* last = nullptr);
  /// UD: what is sent to this address with QPN 0xffffff is for this one, too.
  Status attach_multicast(QueuePair& qp, const IpAddress& group);
  Status detach_multicast(QueuePair& qp, const IpAddress& group);

  // The data path of the program. Any thread; work() must follow for anything to happen.

  [[nodiscard]] PostResult post_send(QueuePair& qp, const SendRequest& request);
  /// A list of which all or none are posted: see SendQueue. `staged` others wait before it.
  [[nodiscard]] static PostResult stage_send(QueuePair& qp, const SendRequest& request,
                                             std::uint32_t staged);
  /// The queue pair may have left its state since they were staged.
  [[nodiscard]] PostResult publish_sends(QueuePair& qp, std::uint32_t staged);
  [[nodiscard]] PostResult post_receive(QueuePair& qp, const ReceiveRequest& request);
  [[nodiscard]] static PostResult post_receive(SharedReceiveQueue& srq,
                                               const ReceiveRequest& request) {
    return srq.post(request);
  }
  /// Posts are waiting for work(). Any thread.
  [[nodiscard]] bool has_doorbells() const { return !doorbells_.empty(); }

  // The data path of the wire.

  // Without memory a frame is dropped and counted, or leaves later: nothing here throws, and
  // nothing is done by halves.

  /// Behind one with `more` comes another, or finish_copies(), before anything else.
  void receive(const packet::Datagram& datagram, Instant now);
  /// No more of the datagrams that came together.
  void finish_copies();
  /// Copies wait that a device makes: more frames may come first.
  [[nodiscard]] bool is_copying() const { return services_.copies.worth_more(); }
  /// Takes new posts and expired timers, and sends what may be sent, a bounded amount: see
  /// has_work(). False: nothing can be sent now, for want of room or memory; try again later.
  bool work(packet::FrameSink& sink, Instant now);
  /// Whoever calls waits for completion events himself: they wake nobody else.
  void set_caller_takes_events(bool yes) { services_.caller_takes_events = yes; }
  /// The rings between this process and the one of `slot` are gone, with what was in them: see
  /// wire::DatagramSink.
  void rings_lost(std::uint32_t slot, Instant now);
  /// Nothing will be posted any more: acknowledgements don't wait for requests to leave with.
  void send_delayed_acks();
  /// A whole Ethernet frame for a raw packet queue pair.
  void receive_frame(QueuePair& qp, std::span<const std::uint8_t> frame, Instant now);
  /// Where those of raw packet queue pairs leave; nullptr: nowhere. It outlives the RNIC, or is
  /// taken away.
  void set_ethernet(packet::EthernetSink* sink) { ethernet_ = sink; }
  /// There is more for work() to do at once.
  [[nodiscard]] bool has_work() const {
    return !runnable_.empty() || !stalled_.empty() || has_doorbells();
  }
  /// When work() must be called again, though nothing happens before.
  [[nodiscard]] Instant next_deadline() const;
  /// Completion queues that asked to be told. Cleared by the caller.
  [[nodiscard]] std::vector<CompletionQueue*>& notifications() { return services_.notifications; }
  /// What happened that no completion tells. Cleared by the caller.
  [[nodiscard]] std::vector<Event>& events() { return services_.events; }

  /// The sum over all queue pairs, those that are gone included.
  [[nodiscard]] Counters counters() const;
  template <typename F>
  void for_each_qp(F&& f) const {
    qps_.for_each(std::forward<F>(f));
  }

  /// nullptr: nobody. It outlives the RNIC, or takes itself away.
  void observe(Observer* observer) { services_.observer = observer; }

 private:
  [[nodiscard]] Status check_domains(const QpInit& init) const;
  [[nodiscard]] unsigned& users_of_domain(const QueuePair& qp);
  /// Checks what is to be made, makes room for it, and finds its number.
  [[nodiscard]] Result<std::uint32_t> prepare_srq(const SrqInit& init);
  [[nodiscard]] Result<Qpn> prepare_qp(const QpInit& init);
  void add(std::unique_ptr<SharedReceiveQueue> srq);
  void add(std::unique_ptr<QueuePair> qp);
  [[nodiscard]] Result<Qpn> new_qpn();
  [[nodiscard]] Key new_key();
  void demultiplex(const packet::Datagram& datagram, Instant now);
  void let_copies_wait(QueuePair& qp, const packet::Datagram& datagram,
                       const packet::OpcodeInfo& info);
  /// C9-7 ff.: service, partition, state and source, before anything else looks at it. nullptr:
  /// nothing is wrong.
  [[nodiscard]] CounterField reason_to_drop(QueuePair& qp, const packet::Datagram& datagram,
                                            const packet::Packet& p);
  /// Of a frame that no queue pair gets.
  void drop_unclaimed(CounterField reason, DroppedFrame frame);
  void dispatch(QueuePair& qp, const packet::Datagram& datagram, const packet::Packet& p,
                Instant now);
  void serve_request(QueuePair& qp, const packet::Datagram& datagram, const packet::Packet& p);
  void dispatch_multicast(const packet::Datagram& datagram, const packet::Packet& p, Instant now);
  void finish_draining(QueuePair& qp);
  void ring_doorbells();
  void expire_timers(const packet::FrameSink& sink, Instant now);
  void schedule(QueuePair& qp);
  /// Stalled queue pairs get a turn again, if it is time.
  void retry_stalled(Instant now);
  void reset(QueuePair& qp);
  void set_timer(QueuePair& qp);
  void make_room_for_queues();

  /// One turn of the queue pair at the front of the run queue.
  [[nodiscard]] Sent transmit(QueuePair& qp, packet::FrameSink& sink, Instant now);

  std::uint32_t slot_;
  memory::Dma& program_memory_;
  memory::NullMemory null_memory_;
  KeyTable keys_;
  std::unordered_map<std::uint32_t, std::unique_ptr<SharedReceiveQueue>> srqs_;
  Services services_;
  Entropy& entropy_;
  Doorbells doorbells_;
  std::unordered_map<std::uint32_t, unsigned> domains_;  // PdId to its users
  std::uint32_t next_pd_ = 1;
  std::unordered_map<std::uint32_t, unsigned> xrc_domains_;  // XrcdId to its users
  std::uint32_t next_xrcd_ = 1;
  QpTable qps_;
  std::map<IpAddress, std::vector<QueuePair*>> multicast_;
  RunQueue runnable_;
  RunQueue stalled_;  // their paths are full
  Instant retry_stalled_at_{};
  TimerQueue timers_;
  packet::EthernetSink* ethernet_ = nullptr;
};

template <typename Queue, typename... More>
Result<Queue*> Rnic::create_srq(const SrqInit& init, More&&... more) try {
  const auto number = prepare_srq(init);
  if (!number) return number.error();
  auto srq = std::make_unique<Queue>(*number, init, std::forward<More>(more)...);
  Queue* const made = srq.get();
  add(std::move(srq));
  return made;
} catch (const std::bad_alloc&) {
  return no_memory();
}

template <typename Pair, typename... More>
Result<Pair*> Rnic::create_qp(const QpInit& init, More&&... more) try {
  const auto qpn = prepare_qp(init);
  if (!qpn) return qpn.error();
  auto qp = std::make_unique<Pair>(*qpn, init, std::forward<More>(more)...);
  Pair* const made = qp.get();
  add(std::move(qp));
  return made;
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace verbena::engine
