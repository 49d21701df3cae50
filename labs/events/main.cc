// Lab: events
//
// Learn: completions by polling, or by sleeping on a completion channel: ibv_req_notify_cq,
//        ibv_get_cq_event, ibv_ack_cq_events. Arming has a race that everybody hits; here it is
//        hit on purpose. Then latency and CPU of both.
// Run:   verbena lab events                 both ends on this machine
//        verbena lab events server | verbena lab events client HOST
// Try:   --iters 10000 --size 8 --stats; --without second-poll --timeout 4

#include <atomic>
#include <thread>

#include "labs/common/cost.h"
#include "labs/common/rounds.h"
#include "labs/common/spent.h"
#include "labs/common/terms.h"
#include "labs/events/end.h"

using events::End;
using events::Request;

namespace {

constexpr std::size_t kMost = std::size_t{1}
                              << 20;  // above, moving the bytes is all that is measured
constexpr auto kLate = std::chrono::milliseconds{100};

void server(const lab::Options& given) {
  rdma::Listener listener = lab::listen(given);
  rdma::ConnectionRequest request = lab::next_request(given, listener);
  const auto asked = lab::offered<Request>(request);
  const lab::Options options = lab::agree(given, asked.terms, kMost);
  End end{.options = options, .pd = rdma::ProtectionDomain{request.context()}};
  end.connection = lab::accept(options, request, end.wishes());

  lab::Work work;
  // 2. A message, and behind it a WRITE to the client's flag: who sees the flag has the message.
  end.wait_polling();
  rdma::Buffer flag{end.pd, sizeof(std::uint64_t)};
  flag.as<std::uint64_t>()[0] = 1;
  end.send();
  end.connection->write(flag, {asked.flag, flag.size(), asked.rkey});

  // 5. Answer every message as it was sent: polling, then sleeping.
  for (std::uint64_t i = 0; i < options.iters; ++i) {
    end.wait_polling();
    end.send();
  }
  for (std::uint64_t i = 0; i < options.iters; ++i) {
    end.wait_sleeping();
    end.send();
  }

  // 7. Be busy with something else, twice, before the answer.
  for (int i = 0; i < 2; ++i) {
    end.wait_sleeping();
    std::this_thread::sleep_for(kLate);
    end.send();
  }
  work.done({.round_trips = end.taken, .needed = end.taken});
  lab::wait_for_goodbye(options, *end.connection);
}

/// The race, in slow motion. True: the device made an event although it didn't have to.
bool hit_the_race(End& end, const rdma::Buffer& flag) {
  // 1. The queue is empty, says the poll. Now ask the server for a message …
  lab::check(!end.received.poll(), "a message before any was asked for");
  end.send();
  // 3. … and let it come before the queue is armed. Its flag behind it tells that it is here.
  const std::atomic_ref arrived{flag.as<std::uint64_t>()[0]};
  const rdma::Deadline until{end.options.deadline};
  while (arrived.load(std::memory_order_acquire) == 0) {
    lab::check(!until.passed() && end.connection->connected(), "the server sent no message");
  }
  end.received.arm();
  pollfd event{.fd = end.received.fd(), .events = POLLIN, .revents = 0};
  const bool woken = poll(&event, 1, static_cast<int>(kLate.count())) != 0;
  if (woken) end.received.take_event();
  // 4. Caught: look again after arming. Without this poll, the program sleeps beside its message.
  const auto missed = end.received.poll();
  lab::check(missed.has_value(), "the message isn't there");
  end.take(missed->check());
  return woken;
}

/// Sends and waits for the answer, `count` times.
lab::Spent ask(End& end, std::uint64_t count, void (End::*wait)()) {
  const lab::Spent before = lab::spent_by_process();
  for ([[maybe_unused]] const std::uint64_t i : lab::rounds(count)) {
    end.send();
    (end.*wait)();
  }
  return lab::spent_by_process() - before;
}

void client(const lab::Options& options) {
  const rdma::Context context{rdma::choose_device(options.device, options.host)};
  End end{.options = options, .pd = rdma::ProtectionDomain{context}};
  const rdma::Buffer flag{end.pd, sizeof(std::uint64_t), rdma::Access::remote_write};
  end.connection = lab::connect(
      options, end.wishes().offer(Request{lab::terms(options), flag.remote().addr, flag.rkey()}));

  lab::Work work;
  const bool woken = hit_the_race(end, flag);
  lab::say("poll: empty; a message comes; arm; sleep: {} within {} ms; poll again: there it is",
           woken ? "an event came (this device is kind)" : "no event", kLate.count());

  // 6. Ping-pong, both ends polling; then both sleeping.
  const lab::Spent polling = ask(end, options.iters, &End::wait_polling);
  const lab::Spent sleeping = ask(end, options.iters, &End::wait_sleeping);
  const auto n = static_cast<double>(options.iters);
  lab::say("polling : {:.1f} µs and {:.1f} µs CPU a round trip", polling.wall.count() / n,
           polling.cpu.count() / n);
  lab::say("sleeping: {:.1f} µs and {:.1f} µs CPU; {} wake-ups, the race caught {} times of {}",
           sleeping.wall.count() / n, sleeping.cpu.count() / n, end.counts.wake_ups,
           end.counts.caught, options.iters);

  // 8. One message that takes its time.
  const lab::Spent late_polling = ask(end, 1, &End::wait_polling);
  const lab::Spent late_sleeping = ask(end, 1, &End::wait_sleeping);
  lab::say("an answer {} ms late costs {:.2f} ms CPU polling, {:.2f} ms sleeping", kLate.count(),
           late_polling.cpu.count() / 1e3, late_sleeping.cpu.count() / 1e3);
  lab::check(late_sleeping.cpu < late_polling.cpu, "sleeping cost more CPU than polling");
  work.done({.round_trips = end.taken, .needed = end.taken});
  lab::say_goodbye(options, *end.connection);
  lab::shown(
      "race caught; round trip {:.0f} µs polling, {:.0f} µs sleeping; {} ms of waiting: "
      "{:.1f} against {:.1f} ms CPU",
      polling.wall.count() / n, sleeping.wall.count() / n, kLate.count(),
      late_polling.cpu.count() / 1e3, late_sleeping.cpu.count() / 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "events",
                   .idea = "Completion channel against polling: notify, get, ack, and the race",
                   .size = 64,
                   .most = kMost,
                   .iters = 1000,
                   .more =
                       [](lab::OwnOptions& own) {
                         own.choice("--without", events::poll_again, {{"second-poll", false}},
                                    "Arm, and sleep without looking once more");
                       }},
                  server, client);
}
