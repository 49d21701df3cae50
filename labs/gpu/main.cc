// Lab: gpu
//
// Learn: a buffer in GPU memory is registered by its device pointer, or as a dma-buf. Then WRITE,
//        READ and SEND work on it as on any other memory. The program copies nothing, and its CPU
//        can't even look: kernels on the GPU make the bytes, and check them.
// Run:   verbena lab gpu                    both ends on this machine, sharing a GPU
//        verbena lab gpu server | verbena lab gpu client HOST
// Try:   --dmabuf; --pinned; --size 64 --iters 1000; --gpu 1

#include "labs/common/cost.h"
#include "labs/common/rounds.h"
#include "labs/common/terms.h"
#include "labs/gpu/copies.h"
#include "labs/gpu/transfers.h"

using namespace gpu;

namespace {

constexpr std::size_t kMost = std::size_t{1} << 28;
Settings settings;

/// Each round of each transfer has contents of its own; round 0 is the first to use the memory and
/// isn't measured.
std::uint64_t seed_of(std::size_t transfer, std::uint64_t round, const lab::Options& options) {
  return transfer * (options.iters + 1) + round;
}

void server(const lab::Options& given) {
  // 1. Find the driver and a GPU. Not before fork(): a child can't use its parent's.
  const Device device{settings.gpu};
  rdma::Listener listener = lab::listen(given);
  rdma::ConnectionRequest request = lab::next_request(given, listener);
  const lab::Options options = lab::agree(given, lab::offered<lab::Terms>(request), kMost);

  // 2. Register memory of the GPU and of the host, and offer both. An rkey doesn't tell which.
  rdma::ProtectionDomain pd{request.context()};
  const Memories mine{device, pd, options.size, settings};
  rdma::ConnectionOptions answer = lab::within(options);
  answer.pd = &pd;
  answer.offer(Places{mine.on_gpu.remote(), mine.on_host.remote()});
  rdma::Connection connection = lab::accept(options, request, answer);

  // 4. Take part in each transfer. What came to the GPU, a kernel checks.
  const auto transfers = all_transfers();
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    for (std::uint64_t round = 0; round <= options.iters; ++round) {
      serve(connection, mine, transfers[i], options.size, seed_of(i, round, options));
    }
  }
  lab::wait_for_goodbye(options, connection);
}

void tell_path(const Device& device, const rdma::Connection& connection) {
  const std::string name = ibv_get_device_name(connection.context().raw()->device);
  lab::say("{} and {}; the GPU's memory is registered by {}", device.name(), name,
           settings.dmabuf ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr");
  lab::say("the way of the bytes: {}",
           rdma::is_verbena(name)
               ? "the driver copies between the GPU and the frames of the software device"
               : "the network card accesses the GPU's memory by itself");
}

/// Skips the lab before the server hears of it, if the network device can't do it.
void try_device(const Device& device, const lab::Options& options) {
  const rdma::Context context{rdma::choose_device(options.device, options.host)};
  const rdma::ProtectionDomain pd{context};
  const Memory probe{device, pd, Kind::gpu, 4096, settings};
}

void client(const lab::Options& options) {
  const Device device{settings.gpu};
  try_device(device, options);
  rdma::ConnectionOptions wish = lab::within(options);
  wish.offer(lab::terms(options));
  rdma::Connection connection = lab::connect(options, wish);
  const auto places = lab::offered<Places>(connection);
  const Memories mine{device, connection.pd(), options.size, settings};
  tell_path(device, connection);
  const CopyRates copies =
      measure_copies(device, connection.pd(), mine, options.size, options.iters);
  lab::say("cuMemcpy, {} pieces of {} bytes: {:.2f} GB/s to the GPU, {:.2f} back; pinned {:.2f}",
           kMessages, options.size, copies.to_gpu, copies.to_host, copies.pinned);

  // 3. Each transfer, round by round: make the bytes, move them, let the receiver check them.
  lab::Work work;
  const auto transfers = all_transfers();
  const std::uint64_t rounds = transfers.size() * (options.iters + 1);
  lab::Rounds progress{rounds};
  double gpu_to_gpu = 0;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    std::chrono::duration<double> took{};
    for (std::uint64_t round = 0; round <= options.iters; ++round) {
      const std::uint64_t seed = seed_of(i, round, options);
      progress.done(seed);
      const auto once = run(connection, mine, places, transfers[i], options.size, seed);
      if (round > 0) took += once;
    }
    const auto bytes = static_cast<double>(options.iters * kMessages * options.size);
    const double rate = bytes / 1e9 / took.count();
    if (i == 0) gpu_to_gpu = rate;
    lab::say("{}  {:>7.2f} GB/s, {:>4.0f} % of cuMemcpy's", transfers[i].name(), rate,
             100 * rate / copies.of(transfers[i]));
  }
  work.done({.round_trips = rounds, .needed = rounds});
  lab::say_goodbye(options, connection);
  lab::shown(
      "{} messages between GPU and host memory, each byte checked; GPU to GPU {:.2f} GB/s, "
      "cuMemcpy {:.2f}",
      rounds * kMessages, gpu_to_gpu, copies.pinned);
}

void add_options(lab::OwnOptions& own) {
  own.number("--gpu", settings.gpu, {0, 255}, "Which GPU of this machine this end uses");
  own.flag("--dmabuf", settings.dmabuf, "Register the GPU's memory as a dma-buf");
  own.flag("--pinned", settings.pinned, "Let the driver allocate the host memory (cuMemHostAlloc)");
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "gpu",
                   .idea = "WRITE, READ and SEND between GPU and host memory, checked on the GPU",
                   .size = 1 << 20,
                   .most = kMost,
                   .iters = 4,
                   .more = add_options},
                  server, client);
}
