// What the tests of this folder share: rdma++ on the loopback device, both ends in one process.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma++/rdma.h>

#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace rdma::test {

inline constexpr const char* kDevice = "vb_lo";
inline constexpr const char* kHost = "127.0.0.1";
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

/// What was reported while it lives; destructors and checks are silent in a good test.
class Reports {
 public:
  Reports() {
    lines().clear();
    before_ = set_reporter([](std::string_view line) noexcept {
      const std::lock_guard lock{mutex()};
      lines().emplace_back(line);
    });
  }
  ~Reports() { set_reporter(before_); }
  [[nodiscard]] std::vector<std::string> take() {
    const std::lock_guard lock{mutex()};
    return std::exchange(lines(), {});
  }

 private:
  static std::vector<std::string>& lines() {
    static std::vector<std::string> all;
    return all;
  }
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  Reporter before_;
};

/// A test during which nothing may be reported.
class Quiet : public testing::Test {
 protected:
  void TearDown() override { EXPECT_THAT(reports.take(), testing::IsEmpty()); }
  Reports reports;
};

/// Two queue pairs of the same kind, connected to each other.
struct Pair {
  explicit Pair(QueuePairBuilder (*kind)(const ProtectionDomain&) = &QueuePair::rc)
      : a{make(kind)}, b{make(kind)} {
    const ConnInfo first = a.info(), second = b.info();
    a.connect(second);
    b.connect(first);
  }
  QueuePair make(QueuePairBuilder (*kind)(const ProtectionDomain&)) const {
    return kind(pd).cq(cq).depth(64, 64).inline_size(64).create();
  }
  /// The next completion, whatever it is of.
  Completion next() {
    const auto done = cq.wait(5s);
    if (!done) throw TimedOut{"test", "completion"};
    return *done;
  }
  Completion next_of(std::uint64_t id) {
    const Completion done = next();
    EXPECT_EQ(done.id(), id) << done.message();
    return done;
  }

  Context context{Device::by_name(kDevice)};
  ProtectionDomain pd{context};
  CompletionQueue cq{context, 256};
  Buffer near{pd, 4096, Access::local_write};
  Buffer far{pd, 4096, Access::remote | Access::bind_window};
  QueuePair a;
  QueuePair b;
};

/// Both ends of a connection.
struct Ends {
  Connection client;
  Connection server;
};
/// They are destroyed by one thread, one after the other: nobody answers the first one's farewell.
inline Ends connect_ends(ConnectionOptions client = {}, ConnectionOptions server = {}) {
  client.linger = server.linger = 10ms;
  Listener listener{SocketAddress::of(kHost, 0)};
  std::optional<Connection> accepted;
  std::exception_ptr failure;
  std::thread accepting{[&] {
    try {
      accepted = listener.accept(server);
    } catch (...) {
      failure = std::current_exception();
    }
  }};
  std::optional<Connection> connected;
  try {
    connected = Connection::connect(kHost, listener.port(), client);
  } catch (...) {
    accepting.join();
    throw;
  }
  accepting.join();
  if (failure) std::rethrow_exception(failure);
  return {std::move(*connected), std::move(*accepted)};
}

/// Runs both; what either throws, this throws.
template <class First, class Second>
void together(First first, Second second) {
  std::exception_ptr failure;
  std::thread other{[&] {
    try {
      second();
    } catch (...) {
      failure = std::current_exception();
    }
  }};
  try {
    first();
  } catch (...) {
    other.join();
    throw;
  }
  other.join();
  if (failure) std::rethrow_exception(failure);
}

/// The message of what `call` throws.
template <class Exception, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Exception& thrown) {
    return thrown.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace rdma::test
