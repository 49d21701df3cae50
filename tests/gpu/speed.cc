// WRITEs between two processes of this host, to and from GPU memory, beside the driver's own copies
// of the same bytes in the same run. Prints a JSON line for each figure.
//
//   verbena run -- gpu_speed [ROUNDS [FROM TO]]     on a machine with a GPU; starts its peer by
//                                                   itself. FROM, TO: pageable, pinned or gpu
//
//   latency_us   one WRITE of 64 B, from its posting to its completion, both ends polling; a copy
//                with its end awaited
//   gb_per_s     WRITEs with 4 under way; copies with 4 started before the first is awaited

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "rdma++/rdma.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/pair.h"

namespace {

using Clock = std::chrono::steady_clock;
using verbena::test::Gpu;

constexpr std::size_t kSize = 64u << 20;
constexpr unsigned kUnderWay = 4;
constexpr std::uint16_t kPort = 7520;

enum class Kind : std::uint32_t { pageable, pinned, gpu };
constexpr std::array kNames{"pageable", "pinned", "gpu"};
constexpr std::array kKinds{Kind::pageable, Kind::pinned, Kind::gpu};

struct Place {
  Place(const Gpu& gpu, const rdma::ProtectionDomain& pd, Kind kind)
      : address{allocate(gpu, kind)},
        region{pd,
               {reinterpret_cast<std::byte*>(address), kSize},
               rdma::Access::local_write | rdma::Access::remote_write} {}

  static std::uint64_t allocate(const Gpu& gpu, Kind kind) {
    if (kind == Kind::gpu) return gpu.allocate(kSize);
    void* at = std::aligned_alloc(4096, kSize);
    if (kind == Kind::pinned)
      gpu.call<int(void**, std::size_t, unsigned)>("cuMemHostAlloc", &at, kSize, 0u);
    std::fill_n(static_cast<std::uint8_t*>(at), kSize, std::uint8_t{1});
    return reinterpret_cast<std::uintptr_t>(at);
  }

  std::uint64_t address;
  rdma::MemoryRegion region;
};
using Places = std::array<Place, 3>;

Places places(const Gpu& gpu, const rdma::ProtectionDomain& pd) {
  return {Place{gpu, pd, Kind::pageable}, Place{gpu, pd, Kind::pinned}, Place{gpu, pd, Kind::gpu}};
}

double seconds_of(const std::function<void()>& f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

void print(const std::string& what, std::size_t bytes, const char* unit, double value) {
  std::printf("{\"what\": \"%s\", \"bytes\": %zu, \"%s\": %.2f}\n", what.c_str(), bytes, unit,
              value);
  std::fflush(stdout);
}

/// A program's own copies, on a stream of its own.
class Copies {
 public:
  explicit Copies(const Gpu& gpu) : gpu_{gpu} {
    gpu.call<int(void**, unsigned)>("cuStreamCreate", &stream_, 1u);
  }
  void start(Kind from, std::uint64_t source, std::uint64_t target, std::size_t bytes) const {
    if (from == Kind::gpu) {
      gpu_.call<int(std::uint64_t, std::uint64_t, std::size_t, void*)>(
          "cuMemcpyDtoHAsync_v2", target, source, bytes, stream_);
    } else {
      gpu_.call<int(std::uint64_t, std::uint64_t, std::size_t, void*)>(
          "cuMemcpyHtoDAsync_v2", target, source, bytes, stream_);
    }
  }
  void finish() const { gpu_.call<int(void*)>("cuStreamSynchronize", stream_); }

 private:
  const Gpu& gpu_;
  void* stream_ = nullptr;
};

void measure_copies(const Gpu& gpu, Places& mine, unsigned rounds) {
  const Copies copies{gpu};
  const std::uint64_t device = mine[2].address;
  for (const Kind host : {Kind::pageable, Kind::pinned}) {
    for (const bool out : {true, false}) {
      const std::uint64_t at = mine[static_cast<std::size_t>(host)].address;
      const Kind from = out ? Kind::gpu : host;
      const auto start = [&](std::size_t bytes) {
        out ? copies.start(from, device, at, bytes) : copies.start(from, at, device, bytes);
      };
      const std::string what = std::string{"copy "} + kNames[static_cast<std::size_t>(from)] +
                               " to " + (out ? kNames[static_cast<std::size_t>(host)] : "gpu");
      for (const std::size_t bytes :
           {std::size_t{64}, std::size_t{1} << 20, std::size_t{8} << 20}) {
        std::vector<double> times;
        for (unsigned i = 0; i < rounds; ++i) {
          times.push_back(seconds_of([&] {
            for (unsigned k = 0; k < (bytes == 64 ? 1 : kUnderWay); ++k) start(bytes);
            copies.finish();
          }));
        }
        bytes == 64 ? print(what, bytes, "latency_us", median(times) * 1e6)
                    : print(what, bytes, "gb_per_s",
                            static_cast<double>(kUnderWay * bytes) / median(times) / 1e9);
      }
    }
  }
}

/// The next completion, found by polling.
void poll(rdma::Connection& conn) {
  ibv_wc done;
  while (ibv_poll_cq(conn.cq().raw(), 1, &done) == 0) {
  }
  if (done.status != IBV_WC_SUCCESS) throw std::runtime_error{ibv_wc_status_str(done.status)};
}

void measure_writes(rdma::Connection& conn, const Place& from, const rdma::RemoteBuffer& to,
                    const std::string& what, unsigned rounds) {
  std::vector<double> times;
  for (unsigned i = 0; i < rounds; ++i) {
    times.push_back(seconds_of([&] {
      conn.post(rdma::Write{from.region.slice(0, 64), to.slice(0, 64)}.signaled()).check();
      poll(conn);
    }));
  }
  print(what, 64, "latency_us", median(times) * 1e6);
  for (const std::size_t bytes :
       {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{8} << 20}) {
    const unsigned count =
        static_cast<unsigned>(std::min<std::size_t>(rounds * 4, (std::size_t{2} << 30) / bytes));
    const auto post = [&] {
      conn.post(rdma::Write{from.region.slice(0, bytes), to.slice(0, bytes)}.signaled()).check();
    };
    times.clear();
    for (int repeat = 0; repeat < 3; ++repeat) {
      times.push_back(seconds_of([&] {
        unsigned posted = 0;
        for (; posted < std::min(count, kUnderWay); ++posted) post();
        for (unsigned done = 0; done < count; ++done) {
          poll(conn);
          if (posted < count) post(), ++posted;
        }
      }));
    }
    print(what, bytes, "gb_per_s", static_cast<double>(bytes) * count / median(times) / 1e9);
  }
}

struct Remote {
  std::array<rdma::RemoteBuffer, 3> buffers;
};

void serve(rdma::Connection& conn) {
  const Gpu gpu;
  const Places mine = places(gpu, conn.pd());
  conn.send_value(
      Remote{{mine[0].region.remote(), mine[1].region.remote(), mine[2].region.remote()}});
  conn.post(rdma::Recv{}).check();
  poll(conn);  // the end
}

void measure(rdma::Connection& conn, unsigned rounds, const std::string& only) {
  const Gpu gpu;
  Places mine = places(gpu, conn.pd());
  const auto theirs = conn.recv_value<Remote>();
  measure_copies(gpu, mine, rounds);
  for (const Kind from : kKinds) {
    for (const Kind to : kKinds) {
      const auto i = static_cast<std::size_t>(from), k = static_cast<std::size_t>(to);
      const std::string what = std::string{"write "} + kNames[i] + " to " + kNames[k];
      if (only.empty() || only == what) {
        measure_writes(conn, mine[i], theirs.buffers[k], what, rounds);
      }
    }
  }
  measure_copies(gpu, mine, rounds);  // once more: the machine may have changed
  conn.post(rdma::Send{}.signaled()).check();
  poll(conn);
}

}  // namespace

int main(int argc, char** argv) try {
  const unsigned rounds = argc > 1 ? static_cast<unsigned>(std::stoul(argv[1])) : 500;
  const std::string only = argc > 3 ? std::string{"write "} + argv[2] + " to " + argv[3] : "";
  verbena::test::run_pair(kPort, serve,
                          [&](rdma::Connection& conn) { measure(conn, rounds, only); });
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "gpu_speed: %s\n", e.what());
  return 1;
}
