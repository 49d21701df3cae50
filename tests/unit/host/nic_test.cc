// The NIC of this process talking to itself over 127.0.0.1: real sockets, real thread.

#include "host/nic.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <numeric>
#include <thread>

#ifdef __SANITIZE_THREAD__
// The child of the fork test starts a thread of its own.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "die_after_fork=0";
}
#endif

namespace verbena::host {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Attr;
using engine::Completion;
using engine::CompletionStatus;
using engine::PostResult;
using engine::QpState;
using engine::SendKind;

constexpr unsigned kAll = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead;

Device loopback() {
  for (Device& d : list_devices()) {
    if (d.interface == "lo") return d;
  }
  throw std::runtime_error{"no loopback interface"};
}

std::uint8_t gid_of(const Device& d, std::string_view text) {
  for (std::size_t i = 0; i < d.gids.size(); ++i) {
    if (d.gids[i].text() == text) return static_cast<std::uint8_t>(i);
  }
  throw std::runtime_error{"no such address"};
}

/// A page that can be taken away.
struct Page {
  Page() : at{mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)} {}
  ~Page() { munmap(at, kSize); }
  [[nodiscard]] engine::Segment range() const {
    return {reinterpret_cast<std::uint64_t>(at), kSize};
  }
  [[nodiscard]] std::uint8_t* bytes() const { return static_cast<std::uint8_t*>(at); }
  static constexpr std::size_t kSize = 1u << 20;
  void* at;
};

class NicTest : public testing::Test {
 protected:
  NicTest() : nic{*Nic::instance().value()}, device{loopback()}, pd{nic.alloc_pd().value()} {}

  ~NicTest() override {
    for (QueuePair* qp : {a, b}) {
      EXPECT_TRUE(qp == nullptr || nic.destroy_qp(qp).ok());
    }
    EXPECT_TRUE(cq == nullptr || nic.destroy_cq(cq).ok());
    for (const auto& r : {region_a, region_b}) {
      EXPECT_TRUE(r.key == Key{} || nic.deregister_memory(r.key).ok());
    }
    EXPECT_TRUE(nic.dealloc_pd(pd).ok());
  }

  void connect(std::string_view address = "127.0.0.1") {
    cq = nic.create_cq(256, channel.get(), {}).value();
    region_a = nic.register_memory(pd, memory_a.range(), memory_a.range().address, kAll).value();
    region_b = nic.register_memory(pd, memory_b.range(), memory_b.range().address, kAll).value();
    a = make_qp();
    b = make_qp();
    bring_up(a, b, address);
    bring_up(b, a, address);
  }

  QueuePair* make_qp() {
    return nic
        .create_qp({.pd = pd,
                    .send_cq = cq,
                    .receive_cq = cq,
                    .max_send = 64,
                    .max_receive = 64,
                    .max_send_sge = 4,
                    .max_receive_sge = 4,
                    .max_inline = 64,
                    .signal_all = true})
        .value();
  }

  void modify(QueuePair* qp, const engine::QpAttributes& to, unsigned mask) {
    const auto r = nic.modify_qp(*qp, device, to, mask);
    ASSERT_TRUE(r.ok()) << r.error().message;
  }

  void bring_up(QueuePair* qp, QueuePair* peer, std::string_view address) {
    engine::QpAttributes to;
    to.state = QpState::init;
    to.access = kAll;
    modify(qp, to, Attr::kState | Attr::kPkeyIndex | Attr::kPort | Attr::kAccess);
    to.state = QpState::rtr;
    to.path.global = true;
    to.path.source_index = gid_of(device, address);
    to.path.destination = *IpAddress::parse(address);
    to.path_mtu = 4096;
    to.dest_qpn = peer->qpn;
    to.max_dest_rd_atomic = 4;
    to.min_rnr_timer = 1;
    modify(qp, to,
           Attr::kState | Attr::kPath | Attr::kPathMtu | Attr::kDestQpn | Attr::kRqPsn |
               Attr::kMaxDestRdAtomic | Attr::kMinRnrTimer);
    to.state = QpState::rts;
    to.timeout = 14;
    to.retry_count = 7;
    to.rnr_retry = 7;
    to.max_rd_atomic = 4;
    modify(qp, to,
           Attr::kState | Attr::kTimeout | Attr::kRetryCount | Attr::kRnrRetry | Attr::kSqPsn |
               Attr::kMaxRdAtomic);
  }

  void post(SendKind kind, std::uint32_t length, std::uint64_t id = 1) {
    const std::array sges{engine::Sge{region_a.iova, length, region_a.key}};
    ASSERT_EQ(nic.post_send(*a, {.wr_id = id,
                                 .kind = kind,
                                 .remote_address = region_b.iova,
                                 .rkey = region_b.key,
                                 .sges = sges}),
              PostResult::posted);
    nic.kick(*a);
  }

  void post_receive(std::uint32_t length, std::uint64_t id) {
    const std::array sges{engine::Sge{region_b.iova, length, region_b.key}};
    ASSERT_EQ(nic.post_receive(*b, {.wr_id = id, .sges = sges}), PostResult::posted);
  }

  std::vector<Completion> completions(std::size_t n) {
    std::vector<Completion> got;
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (got.size() < n && std::chrono::steady_clock::now() < end) {
      std::array<Completion, 8> some;
      const std::size_t k = nic.poll(*cq, some);
      got.insert(got.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(k));
    }
    EXPECT_EQ(got.size(), n);
    got.resize(n);
    return got;
  }

  Nic& nic;
  Device device;
  engine::PdId pd;
  std::unique_ptr<CompletionChannel> channel;
  CompletionQueue* cq = nullptr;
  Page memory_a;
  Page memory_b;
  engine::MemoryRegion region_a;
  engine::MemoryRegion region_b;
  QueuePair* a = nullptr;
  QueuePair* b = nullptr;
};

TEST_F(NicTest, WriteReadAndSendOverIpv4) {
  connect();
  std::iota(memory_a.bytes(), memory_a.bytes() + Page::kSize, std::uint8_t{1});
  post(SendKind::write, Page::kSize);
  EXPECT_EQ(completions(1)[0].status, CompletionStatus::success);
  EXPECT_TRUE(std::equal(memory_a.bytes(), memory_a.bytes() + Page::kSize, memory_b.bytes()));

  std::fill_n(memory_b.bytes(), Page::kSize, std::uint8_t{0x5a});
  post(SendKind::read, Page::kSize);
  EXPECT_EQ(completions(1)[0].status, CompletionStatus::success);
  EXPECT_TRUE(std::equal(memory_b.bytes(), memory_b.bytes() + Page::kSize, memory_a.bytes()));

  post_receive(5000, 9);
  post(SendKind::send, 5000);
  EXPECT_EQ(completions(2)[1].status, CompletionStatus::success);
}

TEST_F(NicTest, WriteOverIpv6) {
  connect("::1");
  memory_a.bytes()[9999] = 42;
  post(SendKind::write, 10'000);
  EXPECT_EQ(completions(1)[0].status, CompletionStatus::success);
  EXPECT_EQ(memory_b.bytes()[9999], 42);
}

TEST_F(NicTest, ServesOneSidedRequestsThoughNobodyPolls) {
  connect();
  memory_a.bytes()[0] = 42;
  post(SendKind::write, 100);
  const auto end = std::chrono::steady_clock::now() + 10s;
  while (cq->empty() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(memory_b.bytes()[0], 42);
  (void)completions(1);
}

TEST_F(NicTest, PostsThatWaitForMoreLeaveThoughNoCallFollows) {
  connect();
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 50; ++i) {  // the NIC thread finds that somebody polls, and steps aside
      post(SendKind::write, 8);
      (void)completions(1);
    }
    constexpr std::size_t kBurst = 20;
    for (std::size_t i = 0; i < kBurst; ++i) post(SendKind::write, 8);
    std::size_t done = 0;
    std::array<Completion, kBurst> some;
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (done < kBurst && std::chrono::steady_clock::now() < end) {
      done += Nic::take(*cq, some);  // unlike poll(), it does nothing for the NIC
      std::this_thread::yield();
    }
    ASSERT_EQ(done, kBurst) << "round " << round;
  }
}

TEST_F(NicTest, CompletionChannelWakesASleeper) {
  channel.reset(CompletionChannel::create().value());
  connect("127.0.0.1");
  for (int i = 0; i < 100; ++i) {
    cq->arm(false);
    post(SendKind::write, 8);
    pollfd p{channel->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&p, 1, 10'000), 1);
    EXPECT_EQ(channel->get().value(), cq);
    EXPECT_EQ(completions(1)[0].status, CompletionStatus::success);
  }
}

TEST_F(NicTest, MemoryUnmappedAfterRegistrationIsAnErrorNotASignal) {
  connect();
  ASSERT_EQ(
      mmap(memory_a.at, Page::kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      memory_a.at);
  post(SendKind::write, 100);
  EXPECT_EQ(completions(1)[0].status, CompletionStatus::local_protection_error);
}

TEST_F(NicTest, TargetMadeReadOnlyAfterRegistrationIsARemoteAccessError) {
  connect();
  ASSERT_EQ(mprotect(memory_b.at, Page::kSize, PROT_READ), 0);
  post(SendKind::write, 100);
  EXPECT_EQ(completions(1)[0].status, CompletionStatus::remote_access_error);
}

TEST_F(NicTest, RegistrationChecksTheRange) {
  Page page;
  const auto range = page.range();
  ASSERT_EQ(mprotect(page.at, 4096, PROT_READ), 0);
  const auto read_only = nic.register_memory(pd, range, range.address, kAll);
  ASSERT_FALSE(read_only.ok());
  EXPECT_EQ(read_only.error().code, EFAULT);
  auto readable = nic.register_memory(pd, range, range.address, Access::kRemoteRead);
  ASSERT_TRUE(readable.ok());
  EXPECT_TRUE(nic.deregister_memory(readable->key).ok());
  ASSERT_EQ(munmap(static_cast<char*>(page.at) + Page::kSize / 2, 4096), 0);
  const auto hole = nic.register_memory(pd, range, range.address, Access::kRemoteRead);
  ASSERT_FALSE(hole.ok());
  EXPECT_EQ(hole.error().code, EFAULT);
}

TEST_F(NicTest, MtuAboveTheInterfacesIsRefusedWithBothNumbers) {
  connect();
  QueuePair* qp = make_qp();
  Device small = device;
  small.interface_mtu = 1500;
  engine::QpAttributes to;
  to.state = QpState::init;
  modify(qp, to, Attr::kState | Attr::kPkeyIndex | Attr::kPort | Attr::kAccess);
  to.state = QpState::rtr;
  to.path_mtu = 4096;
  const auto r = nic.modify_qp(*qp, small, to,
                               Attr::kState | Attr::kPath | Attr::kPathMtu | Attr::kDestQpn |
                                   Attr::kRqPsn | Attr::kMaxDestRdAtomic | Attr::kMinRnrTimer);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, EINVAL);
  EXPECT_NE(r.error().message.find("path_mtu 4096 exceeds active_mtu 1024"), std::string::npos);
  EXPECT_TRUE(nic.destroy_qp(qp).ok());
}

TEST_F(NicTest, ManyThreadsPostAndPollAtOnce) {
  connect();
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  std::atomic<int> completed{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const std::array sges{engine::Sge{region_a.iova, 64, region_a.key}};
      const engine::SendRequest request{.kind = SendKind::write,
                                        .remote_address = region_b.iova,
                                        .rkey = region_b.key,
                                        .sges = sges};
      const auto reap = [&] {
        std::array<Completion, 8> some;
        const std::size_t n = nic.poll(*cq, some);
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(some[i].status, CompletionStatus::success);
        }
        completed += static_cast<int>(n);
      };
      for (int i = 0; i < kEach;) {
        if (nic.post_send(*a, request) == PostResult::posted) {
          nic.kick(*a);
          ++i;
        } else {
          reap();
        }
      }
      const auto end = std::chrono::steady_clock::now() + 30s;
      while (completed < kThreads * kEach && std::chrono::steady_clock::now() < end) reap();
    });
  }
  threads.clear();
  EXPECT_EQ(completed, kThreads * kEach);
}

TEST_F(NicTest, ForkedChildStartsAfreshAndTheParentGoesOn) {
  connect();
  post(SendKind::write, 100);
  (void)completions(1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto own = Nic::instance();
    const bool ok = own.ok() && *own != &nic && (*own)->alloc_pd().ok();
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  post(SendKind::write, 100);
  EXPECT_EQ(completions(1)[0].status, CompletionStatus::success);
}

}  // namespace
}  // namespace verbena::host
