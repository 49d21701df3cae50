#include "labs/flags/one_sided.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace flags {
namespace {

using Clock = std::chrono::steady_clock;
using Micros = std::chrono::duration<double, std::micro>;

constexpr std::uint64_t kFenceRounds = 500;
constexpr int kStreams = 3;

/// Polls: a wake-up would cost more than what is to be measured.
void take(const Bench& bench) {
  const auto done = bench.connection.cq().spin(bench.options.deadline);
  lab::in_time(done.has_value(), "a completion");
  done->check();
}

/// Of durations: one that was interrupted doesn't count for more.
double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double micros_since(Clock::time_point start) { return Micros{Clock::now() - start}.count(); }

Stream stream_once(const Bench& bench, std::uint64_t every) {
  const rdma::Buffer out = bench.connection.buffer(bench.options.size);
  const rdma::Write write{out, bench.remote.slice(0, out.size())};
  const std::uint64_t room = 64;  // of the send queue's requests; a multiple of `every`
  const std::uint64_t total = bench.options.iters;
  Stream result;
  const lab::Spent before = lab::spent_by_process();
  std::uint64_t posted = 0, done = 0;
  while (done < total) {
    if (posted < total && posted - done < room) {
      rdma::Write next = write;
      ++posted;
      if (posted % every == 0 || posted == total) next.signaled();
      bench.connection.post(next).check();
      continue;
    }
    // One completion gives back the room of every request up to it.
    take(bench);
    ++result.completions;
    done = std::min(done + every, total);
  }
  result.spent = lab::spent_by_process() - before;
  return result;
}

}  // namespace

Stream stream(const Bench& bench, std::uint64_t every) {
  Stream quickest = stream_once(bench, every);
  for (int again = 1; again < kStreams; ++again) {
    const Stream next = stream_once(bench, every);
    if (next.spent.wall < quickest.spent.wall) quickest = next;
  }
  return quickest;
}

double write_latency(const Bench& bench, std::size_t size, bool inlined) {
  const rdma::Buffer registered = bench.connection.buffer(size);
  const rdma::Buffer back = bench.connection.buffer(size);
  const rdma::RemoteBuffer remote = bench.remote.slice(0, size);
  std::vector<std::byte> plain(size);
  std::vector<double> samples;
  for (std::uint64_t i = 0; i < bench.options.iters; ++i) {
    const auto value = static_cast<std::byte>(i);
    const std::span<std::byte> source = inlined ? std::span{plain} : registered.bytes();
    std::ranges::fill(source, value);
    rdma::Write write{rdma::Slice{registered}, remote};
    if (inlined) write.inline_data(plain);
    const auto start = Clock::now();
    bench.connection.post(write.signaled()).check();
    if (inlined) std::ranges::fill(source, ~value);  // ours again already
    take(bench);
    samples.push_back(micros_since(start));
    bench.connection.post(rdma::Read{back, remote}.signaled()).check();
    take(bench);
    lab::check(std::ranges::all_of(back.bytes(), [&](std::byte b) { return b == value; }),
               "WRITE {} carried bytes that were stored after it had been posted", i);
  }
  return median(samples);
}

Fencing read_then_write(const Bench& bench, bool fenced) {
  using Value = std::uint64_t;
  const rdma::Buffer memory = bench.connection.buffer(3 * sizeof(Value));
  const auto values = memory.as<Value>();  // what to write, the way station, what came of it
  const auto at = [&](std::size_t i) { return memory.slice(i * sizeof(Value), sizeof(Value)); };
  const auto there = [&](std::size_t i) {
    return bench.remote.slice(i * sizeof(Value), sizeof(Value));
  };
  Fencing result{.rounds = std::min(bench.options.iters, kFenceRounds)};
  std::vector<double> samples;
  for (Value round = 1; round <= result.rounds; ++round) {
    values[0] = round;
    values[1] = 0;
    bench.connection.post(rdma::Write{at(0), there(0)}.signaled()).check();
    take(bench);
    rdma::Write onward{at(1), there(1)};
    if (fenced) onward.fence();
    const auto start = Clock::now();
    bench.connection.qp().post(rdma::Read{at(1), there(0)}, onward.signaled()).check();
    take(bench);
    samples.push_back(micros_since(start));
    bench.connection.post(rdma::Read{at(2), there(1)}.signaled()).check();
    take(bench);
    if (values[2] != round) ++result.stale;
  }
  result.micros = median(samples);
  return result;
}

}  // namespace flags
