// The engine alone: two RNICs in one thread, frames passed through memory, no sockets.
//
// Run:  build/bench/engine_throughput
//
// Ratios against memcpy in the same run; see docs/performance.md.

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "engine/rnic.h"
#include "packet/icrc.h"

namespace {

using namespace verbena;
using engine::Access;
using engine::Attr;

/// Copies without the kernel: what is measured is the engine.
class PlainMemory final : public memory::Dma {
 public:
  bool gather(std::span<const engine::Segment> from, std::span<std::uint8_t> into) override {
    for (const auto& s : from) {
      std::memcpy(into.data(), reinterpret_cast<const void*>(s.address), s.length);
      into = into.subspan(s.length);
    }
    return true;
  }
  bool scatter(std::span<const std::uint8_t> from, std::span<const engine::Segment> into) override {
    for (const auto& s : into) {
      std::memcpy(reinterpret_cast<void*>(s.address), from.data(), s.length);
      from = from.subspan(s.length);
    }
    return true;
  }
  std::optional<std::uint64_t> compare_swap(std::uint64_t, std::uint64_t, std::uint64_t) override {
    return std::nullopt;
  }
  std::optional<std::uint64_t> fetch_add(std::uint64_t, std::uint64_t) override {
    return std::nullopt;
  }
  bool store(std::uint64_t, std::uint64_t) override { return false; }
};

class Randomness final : public engine::Entropy {
 public:
  std::uint32_t next() override { return static_cast<std::uint32_t>(random_()); }

 private:
  std::mt19937 random_{7};
};

/// Frames on their way to the other RNIC.
class Link final : public packet::FrameSink {
 public:
  explicit Link(bool icrc) : icrc_{icrc} {}

  std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn, std::size_t size) override {
    if (used_ + size + packet::kIcrcSize > bytes_.size() || frames_.size() == frames_.capacity()) {
      return {};
    }
    flow_ = flow;
    size_ = size;
    return {bytes_.data() + used_, size};
  }
  void commit() override {
    std::uint8_t* at = bytes_.data() + used_;
    if (icrc_) packet::store_icrc(at + size_, packet::icrc(headers(flow_), {at, size_}));
    frames_.push_back({flow_, {at, size_ + packet::kIcrcSize}});
    used_ += size_ + packet::kIcrcSize;
  }
  [[nodiscard]] bool full() const override { return true; }
  void deliver(engine::Rnic& to, Instant now) {
    for (const auto& [flow, bytes] : frames_) {
      if (icrc_) {
        const auto frame = bytes.first(bytes.size() - packet::kIcrcSize);
        const auto ok = packet::recover_identification(
            headers(flow), frame, packet::load_icrc(frame.data() + frame.size()));
        if (!ok) std::abort();
      }
      to.receive({.source = flow.source,
                  .destination = flow.destination,
                  .destination_qpn = packet::destination_qpn_of(bytes),
                  .bytes = bytes},
                 now);
    }
    frames_.clear();
    used_ = 0;
  }

 private:
  struct Frame {
    packet::Flow flow;
    std::span<const std::uint8_t> bytes;
  };
  static packet::IcrcHeaders headers(const packet::Flow& f) {
    return {f.source, f.destination, f.source_port, packet::kRocePort, 0};
  }

  bool icrc_;
  packet::Flow flow_;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(1u << 17);
  std::vector<Frame> frames_ = [] {
    std::vector<Frame> v;
    v.reserve(256);
    return v;
  }();
};

struct Side {
  explicit Side(std::uint32_t slot) : rnic{slot, memory, randomness} {}
  PlainMemory memory;
  Randomness randomness;
  engine::Rnic rnic;
  engine::PdId pd = rnic.alloc_pd().value();
  engine::CompletionQueue cq{65'536};
  std::vector<engine::QueuePair*> qps;
};

void require(const Status& s) {
  if (!s) throw std::runtime_error{s.error().message};
}

void connect(Side& from, engine::QueuePair* qp, engine::QueuePair* peer, const packet::Flow& flow) {
  engine::QpAttributes a;
  a.access = Access::kRemoteWrite;
  a.flow = flow;
  a.path_mtu = 4096;
  a.dest_qpn = peer->qpn;
  a.timeout = 14;
  a.retry_count = 7;
  a.state = engine::QpState::init;
  require(
      from.rnic.modify_qp(*qp, a, Attr::kState | Attr::kPkeyIndex | Attr::kPort | Attr::kAccess));
  a.state = engine::QpState::rtr;
  require(from.rnic.modify_qp(*qp, a,
                              Attr::kState | Attr::kPath | Attr::kPathMtu | Attr::kDestQpn |
                                  Attr::kRqPsn | Attr::kMaxDestRdAtomic | Attr::kMinRnrTimer));
  a.state = engine::QpState::rts;
  require(from.rnic.modify_qp(*qp, a,
                              Attr::kState | Attr::kTimeout | Attr::kRetryCount | Attr::kRnrRetry |
                                  Attr::kSqPsn | Attr::kMaxRdAtomic));
}

/// Two RNICs with connected pairs of queue pairs.
class World {
 public:
  World(std::size_t pairs, bool icrc, std::uint32_t depth = 64, std::size_t memory = kLine)
      : from(memory, 1), to(memory, 2), there_{icrc}, back_{icrc} {
    const auto ip_a = IpAddress::v4({10, 0, 0, 1});
    const auto ip_b = IpAddress::v4({10, 0, 0, 2});
    for (std::size_t i = 0; i < pairs; ++i) {
      for (Side* s : {&a, &b}) {
        s->qps.push_back(s->rnic
                             .create_qp({.pd = s->pd,
                                         .send_cq = &s->cq,
                                         .receive_cq = &s->cq,
                                         .max_send = depth,
                                         .max_receive = depth,
                                         .max_send_sge = 1,
                                         .max_receive_sge = 1})
                             .value());
      }
      connect(a, a.qps[i], b.qps[i], {ip_a, ip_b, 0xc000});
      connect(b, b.qps[i], a.qps[i], {ip_b, ip_a, 0xc000});
    }
    const auto range = [](std::vector<std::uint8_t>& m) {
      return engine::Segment{reinterpret_cast<std::uint64_t>(m.data()), m.size()};
    };
    const unsigned access = Access::kLocalWrite | Access::kRemoteWrite;
    region_a = a.rnic.register_memory(a.pd, range(from), range(from).address, access).value();
    region_b = b.rnic.register_memory(b.pd, range(to), range(to).address, access).value();
  }

  /// `count` signalled WRITEs on one queue pair, to the last completion; each to and from the
  /// next piece of the memory.
  void write(std::size_t qp, std::uint32_t length, int count) {
    int posted = 0;
    int completed = 0;
    std::array<engine::Completion, 64> done;
    while (completed < count) {
      while (posted < count && post_write(*a.qps[qp], length)) ++posted;
      now_ += std::chrono::microseconds{1};
      (void)a.rnic.work(there_, now_);
      there_.deliver(b.rnic, now_);
      (void)b.rnic.work(back_, now_);
      back_.deliver(a.rnic, now_);
      completed += static_cast<int>(a.cq.poll(done));
    }
  }

  Side a{1};
  Side b{2};

 private:
  static constexpr std::size_t kLine = 64;

  bool post_write(engine::QueuePair& qp, std::uint32_t length) {
    const std::array sges{engine::Sge{region_a.iova + next_, length, region_a.key}};
    const engine::SendRequest request{.kind = engine::SendKind::write,
                                      .signaled = true,
                                      .remote_address = region_b.iova + next_,
                                      .rkey = region_b.key,
                                      .sges = sges};
    if (a.rnic.post_send(qp, request) != engine::PostResult::posted) return false;
    next_ += length;
    if (next_ + length > from.size()) next_ = 0;
    return true;
  }

  std::vector<std::uint8_t> from;
  std::vector<std::uint8_t> to;
  std::size_t next_ = 0;
  engine::MemoryRegion region_a;
  engine::MemoryRegion region_b;
  Link there_;
  Link back_;
  Instant now_{std::chrono::seconds{1}};
};

/// 8-byte WRITEs per second, completions included, in batches of 64 on one of so many queue pairs
/// after another.
void SmallWrites(benchmark::State& state) {
  World world{static_cast<std::size_t>(state.range(0)), /*icrc=*/false};
  std::size_t qp = 0;
  for (auto _ : state) {
    world.write(qp, 8, 64);
    qp = (qp + 1) % world.a.qps.size();
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(SmallWrites)->Arg(1)->Arg(10'000);

constexpr std::uint32_t kLarge = 65'536;

/// How many messages lie side by side: one stays in the L2 cache, a thousand come from memory.
constexpr std::int64_t kHot = 1;
constexpr std::int64_t kCold = 1024;
const char* place(std::int64_t messages) { return messages == kHot ? "in cache" : "in memory"; }

void Memcpy64K(benchmark::State& state) {
  const auto messages = static_cast<std::size_t>(state.range(0));
  std::vector<std::uint8_t> from(messages * kLarge, 1);
  std::vector<std::uint8_t> to(messages * kLarge, 2);
  std::size_t next = 0;
  for (auto _ : state) {
    std::memcpy(to.data() + next * kLarge, from.data() + next * kLarge, kLarge);
    benchmark::ClobberMemory();
    next = (next + 1) % messages;
  }
  state.SetBytesProcessed(state.iterations() * kLarge);
  state.SetLabel(place(state.range(0)));
}
BENCHMARK(Memcpy64K)->Arg(kHot)->Arg(kCold);

/// What a WRITE of 64 KiB can't do without: into frames of 4 KiB and out of them, and with ICRC
/// two checksums of each.
void FramedCopies64K(benchmark::State& state) {
  constexpr std::size_t kMtu = 4096;
  constexpr std::size_t kHeaders = 12;
  constexpr std::size_t kFrame = kHeaders + kMtu + packet::kIcrcSize;
  std::vector<std::uint8_t> from(kLarge, 1);
  std::vector<std::uint8_t> to(kLarge, 2);
  std::vector<std::uint8_t> frames(kLarge / kMtu * kFrame);
  const packet::IcrcHeaders headers{IpAddress::v4({10, 0, 0, 1}), IpAddress::v4({10, 0, 0, 2}),
                                    0xc000, packet::kRocePort, 0};
  const auto check = [&](std::size_t i) {
    if (state.range(0) == 0) return;
    const auto frame = std::span{frames}.subspan(i * kFrame, kHeaders + kMtu);
    benchmark::DoNotOptimize(packet::icrc(headers, frame));
  };
  for (auto _ : state) {
    for (std::size_t i = 0; i < kLarge / kMtu; ++i) {
      std::memcpy(&frames[i * kFrame + kHeaders], &from[i * kMtu], kMtu);
      check(i);
    }
    benchmark::ClobberMemory();
    for (std::size_t i = 0; i < kLarge / kMtu; ++i) {
      check(i);
      std::memcpy(&to[i * kMtu], &frames[i * kFrame + kHeaders], kMtu);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kLarge);
  state.SetLabel(state.range(0) != 0 ? "with ICRC" : "without ICRC");
}
BENCHMARK(FramedCopies64K)->Arg(0)->Arg(1);

void Writes64K(benchmark::State& state) {
  const bool icrc = state.range(1) != 0;
  World world{1, icrc, 64, static_cast<std::size_t>(state.range(0)) * kLarge};
  for (auto _ : state) world.write(0, kLarge, 16);
  state.SetBytesProcessed(state.iterations() * 16 * kLarge);
  state.SetLabel(std::string{place(state.range(0))} + (icrc ? ", with ICRC" : ", without ICRC"));
}
BENCHMARK(Writes64K)->Args({kHot, 0})->Args({kHot, 1})->Args({kCold, 0})->Args({kCold, 1});

void Icrc4K(benchmark::State& state) {
  const std::vector<std::uint8_t> frame(4096 + 12, 1);
  const packet::IcrcHeaders headers{IpAddress::v4({10, 0, 0, 1}), IpAddress::v4({10, 0, 0, 2}),
                                    0xc000, packet::kRocePort, 0};
  for (auto _ : state) benchmark::DoNotOptimize(packet::icrc(headers, frame));
  state.SetBytesProcessed(state.iterations() * 4096);
}
BENCHMARK(Icrc4K);

/// Heap bytes of an idle RC queue pair with queues of 16 requests of one SGE.
void IdleQueuePair(benchmark::State& state) {
  constexpr std::size_t kPairs = 1000;
  const auto heap = [] { return static_cast<double>(mallinfo2().uordblks + mallinfo2().hblkhd); };
  double bytes = 0;
  for (auto _ : state) {
    const double nothing = heap();
    const World one{1, false, 16};
    const double with_one = heap();
    const World many{1 + kPairs, false, 16};
    bytes = (heap() - with_one - (with_one - nothing)) / (2 * kPairs);
  }
  state.counters["bytes"] = bytes;
}
BENCHMARK(IdleQueuePair)->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
