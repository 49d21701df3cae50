// A stream of messages between two processes of this machine, as perftest makes it: --depth
// messages are posted and not complete, all of one buffer. Unlike perftest's clients it can rewrite
// that buffer before each message, as programs do. Prints 10⁹ bytes a second, and the CPU seconds
// that 10⁹ bytes take at each end.
//
//   verbena run -- verbs_stream write|send|read [--size BYTES] [--rewrite] [--events] …
//
// With --events both ends sleep until a completion event comes. Of a READ the target owns the data:
// with --rewrite it polls, and rewrites the buffer once for all READs posted meanwhile.
// The last message is compared at its destination.

#include <sys/socket.h>

#include "limits/limits.h"
#include "loopback.h"

namespace {

using namespace limits;

enum class Kind : std::uint8_t { write, send, read };

constexpr std::uint8_t kTimeout = 14;  // of the transport: 67 ms, as perftest's

/// What the two processes tell each other without RDMA.
struct Shared {
  alignas(128) std::atomic<std::uint64_t> posted{0};  // by the end that posts sends
  alignas(128) std::atomic<bool> drained{false};      // all are complete but the last
  std::atomic<double> target_cpu_seconds{0};
};

struct Address {
  std::uint32_t qpn;
  std::uint32_t rkey;
  std::uint64_t buffer;
};

/// One process's queue pair with its buffer.
class End {
 public:
  End(const Options& options, int control)
      : control_{control}, size_{options.size}, buffer_{pages(options.size, MAP_PRIVATE)} {
    pd_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    if (pd_ == nullptr || channel_ == nullptr) loopback::fail("set-up");
    const auto entries = static_cast<std::uint32_t>(options.depth);
    cq_ = ibv_create_cq(context_, static_cast<int>(entries + receives(options)), nullptr,
                        options.events ? channel_ : nullptr, 0);
    mr_ = ibv_reg_mr(pd_, buffer_, size_,
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (cq_ == nullptr || mr_ == nullptr) loopback::fail("set-up");
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap.max_send_wr = entries;
    init.cap.max_recv_wr = static_cast<std::uint32_t>(receives(options));
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(pd_, &init);
    if (qp_ == nullptr) loopback::fail("ibv_create_qp");
  }

  /// Those posted at a time; more than sends, so that the target may be late to post them again.
  static std::size_t receives(const Options& options) { return 4 * options.depth; }

  /// Connects with the other process's queue pair. Receives are posted before it can send.
  void connect(std::size_t receives) {
    const Address mine{qp_->qp_num, mr_->rkey, reinterpret_cast<std::uintptr_t>(buffer_)};
    say(mine);
    peer_ = hear<Address>();
    loopback::connect(context_, qp_, peer_.qpn, kTimeout);
    for (; receives > 0; --receives) post_receive();
    say('r');  // from now on this end takes what comes
    hear<char>();
  }

  template <typename T>
  void say(const T& value) const {
    require(write(control_, &value, sizeof value) == sizeof value, "write to the other end");
  }
  template <typename T>
  T hear() const {
    T value{};
    require(::read(control_, &value, sizeof value) == sizeof value, "read from the other end");
    return value;
  }

  void post_receive() const {
    ibv_sge room = sge();
    ibv_recv_wr request{};
    request.sg_list = &room;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    require(ibv_post_recv(qp_, &request, &bad) == 0, "ibv_post_recv");
  }

  void post(Kind kind, bool last = false) const {
    ibv_sge data = sge();
    ibv_send_wr request{};
    request.sg_list = &data;
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED;
    request.opcode = kind == Kind::write  ? IBV_WR_RDMA_WRITE
                     : kind == Kind::read ? IBV_WR_RDMA_READ
                     : last               ? IBV_WR_SEND_WITH_IMM
                                          : IBV_WR_SEND;
    request.wr.rdma.remote_addr = peer_.buffer;
    request.wr.rdma.rkey = peer_.rkey;
    ibv_send_wr* bad = nullptr;
    require(ibv_post_send(qp_, &request, &bad) == 0, "ibv_post_send");
  }

  /// Those that are there, and how many. With events, sleeps until there is one.
  struct Taken {
    std::size_t count = 0;
    bool last = false;  // among them is the last message of a stream of SENDs
  };
  Taken take(const Options& options) const {
    Taken taken = poll();
    if (!options.events || taken.count > 0) return taken;
    require(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
    taken = poll();  // one that came before the request makes no event
    if (taken.count > 0) return taken;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    require(ibv_get_cq_event(channel_, &cq, &context) == 0, "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    return poll();
  }

  void rewrite(std::uint64_t number) {
    std::memset(buffer_, static_cast<int>(number % 251), size_);
  }

  /// What the last message has, and no other.
  void write_last() {
    for (std::size_t i = 0; i < size_; ++i) buffer_[i] = last_byte(i);
  }
  [[nodiscard]] bool has_last() const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (buffer_[i] != last_byte(i)) return false;
    }
    return true;
  }

 private:
  static constexpr std::byte last_byte(std::size_t at) {
    return static_cast<std::byte>(at * 7 + (at >> 12) + 13);
  }
  [[nodiscard]] ibv_sge sge() const {
    return {reinterpret_cast<std::uintptr_t>(buffer_), static_cast<std::uint32_t>(size_),
            mr_->lkey};
  }
  [[nodiscard]] Taken poll() const {
    ibv_wc completions[16];
    const int n = ibv_poll_cq(cq_, 16, completions);
    require(n >= 0, "ibv_poll_cq");
    Taken taken{static_cast<std::size_t>(n)};
    for (int i = 0; i < n; ++i) {
      if (completions[i].status != IBV_WC_SUCCESS) {
        fmt::print(stderr, "verbs_stream: {}\n", ibv_wc_status_str(completions[i].status));
        std::exit(1);
      }
      if ((completions[i].wc_flags & IBV_WC_WITH_IMM) != 0) taken.last = true;
    }
    return taken;
  }

  int control_;
  std::size_t size_;
  std::byte* buffer_;
  ibv_context* context_ = loopback::open_device();
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  Address peer_{};
};

/// What the end does that posts no sends, until all messages but the last are complete.
void serve(End& end, Kind kind, const Options& options, Shared& shared) {
  if (kind == Kind::send) {
    for (bool last = false; !last;) {
      const auto taken = end.take(options);
      last = taken.last;
      for (std::size_t i = 0; i < taken.count; ++i) end.post_receive();
    }
  } else if (kind == Kind::read && options.rewrite) {
    Options polling = options;
    polling.events = false;
    for (std::uint64_t seen = 0; !shared.drained;) {
      const auto posted = shared.posted.load(std::memory_order_acquire);
      if (std::exchange(seen, posted) != posted) end.rewrite(posted);
      end.take(polling);  // lets a device without a processor of its own work
    }
  }
}

void run_target(int control, Kind kind, const Options& options, Shared& shared) {
  pin(options.second_core);
  End end{options, control};
  end.connect(kind == Kind::send ? End::receives(options) : 0);
  const double before = cpu_seconds();
  serve(end, kind, options, shared);
  end.hear<char>();
  shared.target_cpu_seconds = cpu_seconds() - before;
  if (kind == Kind::read) end.write_last();
  end.say('l');
  end.hear<char>();
  if (kind == Kind::read || end.has_last()) return;
  fmt::print(stderr, "verbs_stream: the last message has other bytes than were sent\n");
  _exit(1);
}

struct Streamed {
  double gb_per_s = 0;
  double bytes = 0;  // with those that warm up
  double cpu_seconds = 0;
};

/// Keeps --depth messages posted for the time of the options, after a tenth of it to warm up.
Streamed stream(End& end, Kind kind, const Options& options, Shared& shared) {
  const auto size = static_cast<double>(options.size);
  const double cpu = cpu_seconds();
  std::uint64_t posted = 0;
  std::uint64_t complete = 0;
  const auto keep_posted = [&](double seconds) {
    const auto first = complete;
    const auto start = Clock::now();
    while (seconds_since(start) < seconds) {
      for (; posted - complete < options.depth; ++posted) {
        if (options.rewrite && kind != Kind::read) end.rewrite(posted);
        end.post(kind);
        shared.posted.store(posted + 1, std::memory_order_release);
      }
      complete += end.take(options).count;
    }
    return static_cast<double>(complete - first) * size / seconds_since(start) / 1e9;
  };
  keep_posted(options.seconds / 10);
  const double rate = keep_posted(options.seconds);
  while (complete < posted) complete += end.take(options).count;
  return {rate, static_cast<double>(complete) * size, cpu_seconds() - cpu};
}

void run_source(int control, Kind kind, const Options& options, Shared& shared,
                const Child& target) {
  pin(options.first_core);
  End end{options, control};
  end.connect(0);
  const Streamed streamed = stream(end, kind, options, shared);
  shared.drained = true;
  end.say('d');
  if (kind != Kind::send) end.hear<char>();  // a target of SENDs answers after the last one
  if (kind != Kind::read) end.write_last();
  end.post(kind, /*last=*/true);
  while (end.take(options).count == 0) {
  }
  if (kind == Kind::send) end.hear<char>();
  end.say('e');
  target.join();
  if (kind == Kind::read && !end.has_last()) {
    fmt::print(stderr, "verbs_stream: the last message has other bytes than were read\n");
    std::exit(1);
  }
  const double gigabytes = streamed.bytes / 1e9;
  // The end that sends the bytes comes first, as in tcp_stream: of READs that is the target.
  double sender = streamed.cpu_seconds;
  double receiver = shared.target_cpu_seconds;
  if (kind == Kind::read) std::swap(sender, receiver);
  print({{"gb_per_s", streamed.gb_per_s},
         {"sender_cpu_s_per_gb", sender / gigabytes},
         {"receiver_cpu_s_per_gb", receiver / gigabytes}});
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const bool known = what == "write" || what == "send" || what == "read";
  if (!known) {
    fmt::print(stderr, "usage: verbena run -- verbs_stream write|send|read [OPTION…]\n");
    return 2;
  }
  const Kind kind = what == "write" ? Kind::write : what == "send" ? Kind::send : Kind::read;
  const Options options = parse(argc - 1, argv + 1);
  int control[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) == 0, "socketpair");
  auto& shared = limits::shared<Shared>();
  // Before a device is open: a device doesn't go into the child of a fork.
  const Child target{[&] {
    close(control[0]);
    run_target(control[1], kind, options, shared);
  }};
  close(control[1]);
  run_source(control[0], kind, options, shared, target);
}
