// Lab: loss
//
// Learn: what a lost packet costs a reliable connection. The card sends again, not the program: at
//        best at once, because the receiver asks (NAK) for everything from the gap on (go-back-N);
//        at worst after a timer, because the last packet, the NAK or what was sent again is lost
//        as well. Every byte arrives at any rate of loss; the goodput does not.
// Run:   verbena lab loss                   both ends on this machine
//        verbena lab loss server | verbena lab loss client HOST
// Try:   --rates 0,2,10 --ack-timeout 11 --delay 2ms

#include <array>

#include "labs/common/child.h"
#include "labs/common/cost.h"
#include "labs/common/pattern.h"
#include "labs/common/rounds.h"
#include "labs/loss/device_counters.h"
#include "labs/loss/end.h"
#include "labs/loss/rates.h"

using namespace loss;

namespace {

std::vector<double> rates{0, 0.1, 1, 5};  // percent
unsigned ack_timeout = 14;                // 4.096 us * 2^14 = 67 ms

struct Result {
  double seconds;
  double silence_ms;  // the longest without a completion
  lab::Cost cost;
};

// 2. A window of WRITEs. Each completes when the receiver has acknowledged it, in order.
Result write_all(const lab::Options& options, End& end) {
  Result result{};
  const auto start = std::chrono::steady_clock::now();
  auto last = start;
  std::uint64_t posted = 0;
  for (const std::uint64_t done : lab::rounds(end.plan.iters)) {
    for (; posted < std::min<std::uint64_t>(done + kWindow, end.plan.iters); ++posted) {
      end.qp.post(rdma::Write{end.slot(posted), end.slot_there(posted)}.signaled()).check();
    }
    const auto completion = end.cq.wait(options.deadline);
    lab::in_time(completion.has_value(), "message {} of {}", done + 1, end.plan.iters);
    completion->check();
    // 3. What was asked for again comes soon; what waits for a timer leaves a silence.
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::milli> silence = now - last;
    result.silence_ms = std::max(result.silence_ms, silence.count());
    last = now;
  }
  result.seconds = std::chrono::duration<double>{last - start}.count();
  return result;
}

/// Three times; the one in the middle, by time.
Result transfer(const lab::Options& options, rdma::TcpBootstrap& tcp, const Plan& plan) {
  End end{options, tcp, plan, ack_timeout};
  lab::fill_pattern(end.memory.bytes(), 1);
  std::array<Result, 3> tries{};
  lab::Work work;
  for (Result& one : tries) one = write_all(options, end);
  std::ranges::sort(tries, {}, &Result::seconds);
  tries[1].cost = work.done({.needed = tries.size() * plan.iters});
  tcp.barrier();
  return tries[1];
}

// 4. The receiver's program sleeps meanwhile. At the end all bytes are there.
Result receive(const lab::Options& options, rdma::TcpBootstrap& tcp, const Plan& plan) {
  End end{options, tcp, plan, ack_timeout};
  lab::Work work;
  tcp.barrier();
  lab::check_pattern(
      end.memory.bytes().first(std::min<std::uint64_t>(kWindow, plan.iters) * plan.size), 1,
      "what was written");
  return {.seconds = 0, .silence_ms = 0, .cost = work.done()};
}

void server(const lab::Options& options) {
  rdma::TcpBootstrap tcp = lab::accept_tcp(options);
  while (true) {
    const auto plan = tcp.recv_value<Plan>();
    if (plan.percent < 0) return;
    lab::check(plan.percent <= 100 && plan.size > 0 && plan.iters > 0,
               "{} sent a plan that this lab doesn't know", tcp.peer());
    lab::check_memory(2 * kWindow * plan.size);
    lab::add_cost(lab::in_child(options, [&] { return receive(options, tcp, plan); }).cost);
  }
}

/// What the client's device did about the losses: packets sent again, requests of the receiver for
/// that, and times that nobody asked.
std::string repairs(const DeviceCounters& counters) {
  const auto sent = counters.value("sent_pkts");
  const auto again = counters.value("retransmitted_pkts");
  const auto timeouts = counters.value("timeouts"), early = counters.value("early_retransmits");
  if (!sent || !again || !timeouts || !early) return fmt::format("{:>27}", "see --stats");
  const double part = 100.0 * static_cast<double>(*again) / static_cast<double>(*sent);
  return fmt::format("{:>8.1f} %  {:>6}  {:>7}", part, counters.value("rcvd_seq_err").value_or(0),
                     *timeouts + *early);
}

void client(const lab::Options& options) {
  lab::check_memory(2 * kWindow * options.size);
  rdma::TcpBootstrap tcp = lab::connect_tcp(options);
  const double mib =
      static_cast<double>(options.size) * static_cast<double>(options.iters) / (1 << 20);
  std::string losses, goodputs;
  lab::say("{:>7}  {:>8}  {:>8}  {:>10}  {:>6}  {:>7}  {:>15}", "loss", "seconds", "MiB/s",
           "sent again", "NAKs", "timers", "longest silence");
  for (const double percent : rates) {
    const Plan plan{percent, options.size, options.iters};
    const DeviceCounters counters;
    tcp.send_value(plan);
    const Result result = lab::in_child(options, [&] {
      counters.record();
      return transfer(options, tcp, plan);
    });
    lab::add_cost(result.cost);
    lab::say("{:>5} %  {:>8.3f}  {:>8.1f}  {}  {:>12.1f} ms", percent, result.seconds,
             mib / result.seconds, repairs(counters), result.silence_ms);
    losses += fmt::format("{}{}", losses.empty() ? "" : ", ", percent);
    goodputs += fmt::format("{}{:.1f}", goodputs.empty() ? "" : ", ", mib / result.seconds);
  }
  tcp.send_value(Plan{-1, 0, 0});
  lab::shown("{:.1f} MiB at {} % loss: {} MiB/s; every byte arrived", mib, losses, goodputs);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(
      argc, argv,
      {.name = "loss",
       .idea = "The same transfer at 0, 0.1, 1 and 5 % loss: go-back-N, timers, goodput",
       .size = 64 << 10,
       .iters = 256,
       .without = {"--drop"},  // it sets the loss itself: --rates
       .more =
           [](lab::OwnOptions& own) {
             own.list("--rates", rates, rate_problem, "Loss of each transfer, in percent: 0 to 50");
             own.number("--ack-timeout", ack_timeout, {1, 20}, "The timer: 4.096 us * 2^N");
           }},
      server, client);
}
