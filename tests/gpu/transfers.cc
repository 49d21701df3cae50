// Random transfers between two processes: WRITE, WRITE with immediate, READ and SEND, between
// random offsets of GPU and host memory, with lists that mix both. The receiving side compares all
// of its memory with what must be there, after each transfer.
//
//   gpu_transfers [ROUNDS] [SEED]     starts its peer by itself; prints what it did

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "rdma++/rdma.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/pair.h"

namespace {

using namespace verbena::test;

constexpr std::size_t kSize = 3u << 20;
constexpr std::uint16_t kPort = 7519;
const rdma::Access kRights =
    rdma::Access::local_write | rdma::Access::remote_write | rdma::Access::remote_read;

enum class Operation { write, write_immediate, read, send };
constexpr std::array kNames{"WRITE", "WRITE with immediate", "READ", "SEND"};

/// Memory of one kind, and what must be in it.
class Memory {
 public:
  Memory(const Gpu* gpu, const rdma::ProtectionDomain& pd)
      : gpu_{gpu},
        host_(gpu == nullptr ? kSize : 0),
        expected_(kSize),
        region_{pd, place(), kRights} {
    write_all();
  }

  [[nodiscard]] const rdma::MemoryRegion& region() const { return region_; }
  [[nodiscard]] std::uint8_t* expected() { return expected_.data(); }
  void write_all() {
    if (gpu_ != nullptr) {
      gpu_->copy_in(address(), expected_.data(), kSize);
    } else {
      host_ = expected_;
    }
  }
  void write(std::size_t offset, std::size_t size) {
    if (gpu_ != nullptr) {
      gpu_->copy_in(address() + offset, &expected_[offset], size);
    } else {
      std::copy_n(&expected_[offset], size, &host_[offset]);
    }
  }
  /// Where it first differs from what must be there; kSize: nowhere.
  [[nodiscard]] std::size_t difference() {
    if (gpu_ != nullptr) {
      found_.resize(kSize);
      gpu_->copy_out(found_.data(), address(), kSize);
    }
    const auto& is = gpu_ != nullptr ? found_ : host_;
    return static_cast<std::size_t>(std::mismatch(is.begin(), is.end(), expected_.begin()).first -
                                    is.begin());
  }

 private:
  [[nodiscard]] std::uint64_t address() const {
    return reinterpret_cast<std::uintptr_t>(region_.bytes().data());
  }
  std::span<std::byte> place() {
    if (gpu_ == nullptr) return std::as_writable_bytes(std::span{host_});
    return {reinterpret_cast<std::byte*>(gpu_->allocate(kSize)), kSize};
  }

  const Gpu* gpu_;
  std::vector<std::uint8_t> host_;
  std::vector<std::uint8_t> expected_;
  std::vector<std::uint8_t> found_;
  rdma::MemoryRegion region_;
};

struct Piece {
  std::size_t kind;
  std::size_t offset;
  std::size_t size;
};

/// Both processes draw the same.
struct Transfer {
  Operation operation;
  std::vector<Piece> local;   // the initiator's
  std::vector<Piece> remote;  // the target's: one, except for SEND
  std::size_t size = 0;
  std::uint32_t seed;

  explicit Transfer(std::mt19937& draw) {
    const auto below = [&](std::size_t n) {
      return std::uniform_int_distribution<std::size_t>{0, n - 1}(draw);
    };
    operation = static_cast<Operation>(below(4));
    const std::size_t most = std::size_t{1} << below(21);
    local = pieces(below, 1 + below(4), most);
    for (const Piece& p : local) size += p.size;
    remote = {{below(2), below(kSize - size + 1), size}};
    if (operation == Operation::send && size > 1) remote = halves(below, size);
    seed = static_cast<std::uint32_t>(draw());
  }

  template <typename Below>
  static std::vector<Piece> pieces(const Below& below, std::size_t count, std::size_t most) {
    std::vector<Piece> list;
    for (std::size_t i = 0; i < count; ++i) {  // each in a quarter of its own
      const std::size_t size = 1 + below(std::min(most, kSize / 4));
      list.push_back({below(2), i * (kSize / 4) + below(kSize / 4 - size + 1), size});
    }
    return list;
  }

  /// Two pieces, each in a half of its own.
  template <typename Below>
  static std::vector<Piece> halves(const Below& below, std::size_t size) {
    constexpr std::size_t kHalf = kSize / 2;
    const std::size_t least = size > kHalf ? size - kHalf : 1;
    const std::size_t most = std::min(size - 1, kHalf);
    const std::size_t first = least + below(most - least + 1);
    const std::size_t second = size - first;
    return {{below(2), below(kHalf - first + 1), first},
            {below(2), kHalf + below(kHalf - second + 1), second}};
  }
};

using Memories = std::array<Memory, 2>;

std::vector<rdma::Slice> slices(Memories& memories, const std::vector<Piece>& list) {
  std::vector<rdma::Slice> result;
  for (const Piece& p : list) result.push_back(memories[p.kind].region().slice(p.offset, p.size));
  return result;
}

/// The bytes of this transfer, at these places of what is expected.
void expect(Memories& memories, const std::vector<Piece>& list, std::uint32_t seed, bool put) {
  std::minstd_rand bytes{seed};
  for (const Piece& p : list) {
    std::uint8_t* const at = memories[p.kind].expected() + p.offset;
    std::generate_n(at, p.size, [&] { return static_cast<std::uint8_t>(bytes() >> 7); });
    if (put) memories[p.kind].write(p.offset, p.size);
  }
}

void check(Memories& memories, const Transfer& t, unsigned round, const char* whose) {
  for (std::size_t kind = 0; kind < memories.size(); ++kind) {
    const std::size_t at = memories[kind].difference();
    if (at == kSize) continue;
    throw std::runtime_error{
        "round " + std::to_string(round) + ": a " + kNames[static_cast<std::size_t>(t.operation)] +
        " of " + std::to_string(t.size) + " bytes: byte " + std::to_string(at) + " of the " +
        whose + "'s " + (kind == 0 ? "host" : "GPU") + " memory is wrong"};
  }
}

void play(rdma::Connection& conn, bool initiator, unsigned rounds, unsigned seed) {
  std::optional<Gpu> gpu;
  if (std::getenv("HOST_ONLY") == nullptr) gpu.emplace();
  Memories mine{Memory{nullptr, conn.pd()}, Memory{gpu ? &*gpu : nullptr, conn.pd()}};
  struct Both {
    rdma::RemoteBuffer host, gpu;
  };
  std::array<rdma::RemoteBuffer, 2> theirs{};
  if (initiator) {
    const auto both = conn.recv_value<Both>();
    theirs = {both.host, both.gpu};
  } else {
    conn.send_value(Both{mine[0].region().remote(), mine[1].region().remote()});
  }
  std::mt19937 draw{seed};
  std::array<std::size_t, 4> done{};
  std::size_t bytes = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    const Transfer t{draw};
    const bool source = initiator == (t.operation != Operation::read);
    expect(mine, initiator ? t.local : t.remote, t.seed, /*put=*/source);
    conn.barrier();  // behind it, for the barrier takes a receive itself
    if (!initiator && t.operation == Operation::send) {
      conn.post(rdma::Recv{slices(mine, t.remote)}).check();
    } else if (!initiator && t.operation == Operation::write_immediate) {
      conn.post(rdma::Recv{}).check();
    }
    if (initiator) {
      const auto to = theirs[t.remote[0].kind].slice(t.remote[0].offset, t.remote[0].size);
      const auto from = slices(mine, t.local);
      switch (t.operation) {
        case Operation::write:
          conn.perform(rdma::Write{from, to}).check();
          break;
        case Operation::write_immediate:
          conn.perform(rdma::Write{from, to}.imm(round)).check();
          break;
        case Operation::read:
          conn.perform(rdma::Read{from, to}).check();
          break;
        case Operation::send:
          conn.perform(rdma::Send{from}).check();
          break;
      }
    } else if (t.operation == Operation::send || t.operation == Operation::write_immediate) {
      conn.wait().check();
    }
    conn.barrier();
    if (!source) check(mine, t, round, initiator ? "initiator" : "target");
    ++done[static_cast<std::size_t>(t.operation)];
    bytes += t.size;
  }
  conn.barrier();
  if (initiator) {
    std::printf(
        "%u transfers, %zu MiB: %zu WRITE, %zu WRITE with immediate, %zu READ, %zu SEND; all bytes "
        "right\n",
        rounds, bytes >> 20, done[0], done[1], done[2], done[3]);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const unsigned rounds = argc > 1 ? static_cast<unsigned>(std::stoul(argv[1])) : 10'000;
  const unsigned seed = argc > 2 ? static_cast<unsigned>(std::stoul(argv[2])) : 1;
  run_pair(
      kPort, [&](rdma::Connection& conn) { play(conn, false, rounds, seed); },
      [&](rdma::Connection& conn) { play(conn, true, rounds, seed); });
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "gpu_transfers: %s\n", e.what());
  return 1;
}
