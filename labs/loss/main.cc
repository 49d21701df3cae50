// Lab: loss
//
// Learn: what a lost packet costs a reliable connection. The card sends again, not the program: at
//        best at once, because the receiver asks (NAK) for everything from the gap on (go-back-N);
//        at worst after a timer, because the last packet, the NAK or what was sent again is lost
//        as well. Every byte arrives at any rate of loss; the goodput does not.
// Run:   verbena lab loss                   both ends on this machine
//        verbena lab loss server | verbena lab loss client HOST
// Try:   --rates 0,2,10 --ack-timeout 11 --delay 2ms

#include <algorithm>
#include <array>
#include <cstdlib>

#include "labs/common/bootstrap.h"
#include "labs/common/child.h"
#include "labs/common/pattern.h"
#include "labs/common/rounds.h"
#include "labs/loss/device_counters.h"

namespace {

constexpr std::size_t kWindow = 16;       // messages in flight
std::vector<double> rates{0, 0.1, 1, 5};  // percent
unsigned ack_timeout = 14;                // 4.096 us * 2^14 = 67 ms

/// What the client tells the server before each transfer.
struct Plan {
  double percent;  // below 0: that was the last
  std::uint64_t size, iters;
};

struct Result {
  double seconds;
  double silence_ms;  // the longest without a completion
};

/// A part that FaultSpec can write down and that some packet may meet.
std::string rate_problem(double percent) {
  if (percent == 0 || (percent >= 0.001 && percent <= 50)) return "";
  return "wanted are percents, 0 or 0.001 to 50";
}

/// For the device of this process, which reads it when it is opened. The other faults stay.
void lose(double percent) {
  if (percent == 0) return;
  const char* const others = std::getenv("VERBENA_FAULTS");
  setenv("VERBENA_FAULTS",
         fmt::format("{}{}drop={}%", others == nullptr ? "" : others, others == nullptr ? "" : ",",
                     percent)
             .c_str(),
         1);
}

/// One end of one transfer, in a process of its own.
struct End {
  // 1. Open the device, with the loss of this transfer; swap over the parents' socket.
  End(const lab::Options& options, rdma::TcpBootstrap& socket, const Plan& wanted)
      : plan{wanted},
        tcp{socket},
        from{open(options, socket, wanted)},
        pd{from.context},
        cq{from.context, 2 * kWindow},
        qp{rdma::QueuePair::rc(pd).cq(cq).depth(kWindow, 1).sge(1, 1).create()},
        memory{pd, kWindow * plan.size, rdma::Access::remote_write} {
    qp.to_init();
    const rdma::ConnInfo local = rdma::ConnInfo{qp.info(1, from.gid)}.offer(memory.remote());
    const rdma::ConnInfo peer = tcp.exchange(local);
    qp.to_rtr({.path = qp.path_to(peer),
               .qpn = peer.qpn,
               .psn = peer.psn,
               .mtu = std::min(local.mtu, peer.mtu),
               .max_dest_rd_atomic = 1});
    qp.to_rts(
        {.psn = local.psn, .timeout = static_cast<std::uint8_t>(ack_timeout), .max_rd_atomic = 1});
    there = peer.remote();
    tcp.barrier();
  }
  static lab::Origin open(const lab::Options& options, const rdma::TcpBootstrap& tcp,
                          const Plan& plan) {
    lose(plan.percent);
    lab::Origin origin = lab::origin(options, tcp);
    lab::check_message_size(origin.context, plan.size);
    if (rdma::is_verbena(origin.context.name())) return origin;
    throw lab::Skipped{
        fmt::format("{} is hardware or the kernel's: it loses nothing on request; Verbena's "
                    "devices (vb_...) do",
                    origin.context.name())};
  }
  [[nodiscard]] rdma::Slice slot(std::uint64_t i) const {
    return memory.slice(i % kWindow * plan.size, plan.size);
  }
  [[nodiscard]] rdma::RemoteBuffer slot_there(std::uint64_t i) const {
    return there.slice(i % kWindow * plan.size, plan.size);
  }

  Plan plan;
  rdma::TcpBootstrap& tcp;
  lab::Origin from;
  rdma::ProtectionDomain pd;
  rdma::CompletionQueue cq;
  rdma::QueuePair qp;
  rdma::Buffer memory;
  rdma::RemoteBuffer there;
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
  End end{options, tcp, plan};
  lab::fill_pattern(end.memory.bytes(), 1);
  std::array<Result, 3> tries{};
  for (Result& one : tries) one = write_all(options, end);
  std::ranges::sort(tries, {}, &Result::seconds);
  tcp.barrier();
  return tries[1];
}

// 4. The receiver's program sleeps meanwhile. At the end all bytes are there.
Result receive(const lab::Options& options, rdma::TcpBootstrap& tcp, const Plan& plan) {
  End end{options, tcp, plan};
  tcp.barrier();
  lab::check_pattern(
      end.memory.bytes().first(std::min<std::uint64_t>(kWindow, plan.iters) * plan.size), 1,
      "what was written");
  return {};
}

void server(const lab::Options& options) {
  rdma::TcpBootstrap tcp = lab::accept_tcp(options);
  while (true) {
    const auto plan = tcp.recv_value<Plan>();
    if (plan.percent < 0) return;
    lab::check(plan.percent <= 100 && plan.size > 0 && plan.iters > 0, "{} speaks another language",
               tcp.peer());
    lab::check_memory(2 * kWindow * plan.size);
    std::ignore = lab::in_child(options, [&] { return receive(options, tcp, plan); });
  }
}

/// What the client's device did about the losses: packets sent again, requests of the receiver for
/// that, and times that nobody asked.
std::string repairs(const loss::DeviceCounters& counters) {
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
    const loss::DeviceCounters counters;
    tcp.send_value(plan);
    const Result result = lab::in_child(options, [&] {
      counters.record();
      return transfer(options, tcp, plan);
    });
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
             own.list("--rates", rates, rate_problem, "Packets lost, in percent: 0 to 50");
             own.number("--ack-timeout", ack_timeout, {1, 20}, "The timer: 4.096 us * 2^N");
           }},
      server, client);
}
