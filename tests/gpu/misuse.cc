// What must be refused, and what must fail, with GPU memory; and that the program lives.
//
//   gpu_misuse      starts its peer by itself; prints what it saw

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "rdma++/rdma.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/pair.h"

namespace {

using namespace verbena::test;

constexpr std::size_t kSize = 1u << 20;
constexpr std::uint16_t kPort = 7521;
const rdma::Access kRights =
    rdma::Access::local_write | rdma::Access::remote_write | rdma::Access::remote_read;

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error{"not so: " + what};
}

std::span<std::byte> span_at(std::uint64_t address) {
  return {reinterpret_cast<std::byte*>(address), kSize};
}

/// Registrations: beyond an allocation, freed, and by descriptors.
void register_wrongly(const Gpu& gpu, const rdma::ProtectionDomain& pd) {
  const std::uint64_t at = gpu.allocate(kSize);
  const auto refused = [&](std::uint64_t address, std::size_t size) {
    errno = 0;
    ibv_mr* const mr = ibv_reg_mr(pd.raw(), reinterpret_cast<void*>(address), size, 1);
    return mr == nullptr && errno == EFAULT;
  };
  require(refused(at + 4096, kSize), "a range beyond its allocation is refused");
  gpu.release(at);
  require(refused(at, kSize), "freed memory is refused");
  const auto by_descriptor = [&](int fd, std::uint64_t iova) {
    errno = 0;
    ibv_mr* const mr = ibv_reg_dmabuf_mr(pd.raw(), 0, kSize, iova, fd, 1);
    return mr == nullptr ? errno : 0;
  };
  require(by_descriptor(-1, 0) == EBADF, "descriptor -1 is EBADF");
  require(by_descriptor(1'000'000, 0) == EBADF, "a descriptor that isn't open is EBADF");
  require(by_descriptor(0, 0) == EINVAL, "a descriptor of something else is EINVAL");
}

void post_inline(const Gpu& gpu, rdma::Connection& conn) {
  const std::uint64_t at = gpu.allocate(kSize);
  const rdma::MemoryRegion region{conn.pd(), span_at(at), kRights};
  ibv_sge sge{at, 16, region.lkey()};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  require(ibv_post_send(conn.qp().raw(), &wr, &bad) == EINVAL && bad == &wr,
          "inline data on a GPU is refused");
}

struct Offer {
  rdma::RemoteBuffer stays, goes;
};

/// The target: memory that stays, and memory that is freed when the initiator says so.
void serve(rdma::Connection& conn) {
  const Gpu gpu;
  const std::uint64_t goes = gpu.allocate(kSize);
  const std::uint64_t stays = gpu.allocate(kSize);
  const rdma::MemoryRegion first{conn.pd(), span_at(stays), kRights};
  const rdma::MemoryRegion second{conn.pd(), span_at(goes), kRights};
  conn.send_value(Offer{first.remote(), second.remote()});
  conn.barrier();
  gpu.release(goes);
  conn.barrier();
  const auto ended = conn.wait(std::chrono::seconds{20});  // the initiator's WRITE breaks it
  require(!ended || !ended->ok(), "the connection of freed memory ends");
}

void drive(rdma::Connection& conn) {
  const Gpu gpu;
  register_wrongly(gpu, conn.pd());
  post_inline(gpu, conn);
  const auto offer = conn.recv_value<Offer>();
  const std::uint64_t at = gpu.allocate(kSize);
  const rdma::MemoryRegion region{conn.pd(), span_at(at), kRights};
  require(conn.perform(rdma::Write{region.slice(), offer.goes}).ok(), "WRITEs work before");
  conn.barrier();
  conn.barrier();  // the peer has freed its memory
  const auto done = conn.perform(rdma::Write{region.slice(), offer.goes});
  require(done.status == IBV_WC_REM_ACCESS_ERR || done.status == IBV_WC_REM_OP_ERR,
          std::string{"a WRITE to freed memory fails at the peer, but: "} +
              ibv_wc_status_str(done.status));
  std::printf("refused: beyond, freed, descriptors, inline; a WRITE to freed memory: %s\n",
              ibv_wc_status_str(done.status));
}

/// Memory of the initiator's own, freed under its request.
void free_own(rdma::Connection& conn) {
  const Gpu gpu;
  const auto offer = conn.recv_value<Offer>();
  const std::uint64_t at = gpu.allocate(kSize);
  const rdma::MemoryRegion region{conn.pd(), span_at(at), kRights};
  conn.barrier();
  conn.barrier();
  gpu.release(at);
  const auto done = conn.perform(rdma::Write{region.slice(), offer.stays});
  require(done.status == IBV_WC_LOC_PROT_ERR,
          std::string{"a WRITE from freed memory is a local protection error, but: "} +
              ibv_wc_status_str(done.status));
  std::printf("a WRITE from freed memory: %s\n", ibv_wc_status_str(done.status));
}

/// In a process that has no GPU: its children can't use one that it had.
bool plays(std::uint16_t port, void (*initiator)(rdma::Connection&)) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      run_pair(port, serve, initiator);
      std::fflush(stdout);
      _exit(0);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "gpu_misuse: %s\n", e.what());
      _exit(1);
    }
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main() { return plays(kPort, drive) && plays(kPort + 1, free_own) ? 0 : 1; }
