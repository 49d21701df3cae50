#include "tools/top/rates.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

namespace verbena::top {
namespace {

/// InfiniBand counts data in words (IBA 16.1.3.5).
constexpr double kWord = 4;

bool went_back(const Counters& before, const Counters& now) {
  return std::ranges::any_of(
      before, [&](const auto& counter) { return value_of(now, counter.first) < counter.second; });
}

const Port* find(const std::vector<Port>& ports, const Port& wanted) {
  const auto found = std::ranges::find_if(ports, [&](const Port& port) {
    return port.device == wanted.device && port.number == wanted.number;
  });
  if (found == ports.end() || went_back(found->counters, wanted.counters) ||
      went_back(found->hardware, wanted.hardware)) {
    return nullptr;
  }
  return &*found;
}

double per_second(std::uint64_t before, std::uint64_t now, double seconds) {
  return now > before ? static_cast<double>(now - before) / seconds : 0;
}

/// The sum of those that the device counts.
std::optional<double> rate_of_all(const Counters& before, const Counters& now, double seconds,
                                  std::initializer_list<std::string_view> names) {
  std::optional<double> sum;
  for (const auto name : names) {
    if (!now.contains(name)) continue;
    sum = sum.value_or(0) + per_second(value_of(before, name), value_of(now, name), seconds);
  }
  return sum;
}

std::optional<double> times(std::optional<double> value, double factor) {
  return value ? std::optional{*value * factor} : std::nullopt;
}

void add(std::optional<double>& sum, std::optional<double> more) {
  if (more) sum = sum.value_or(0) + *more;
}

}  // namespace

Rates& operator+=(Rates& sum, const Rates& more) {
  for (const auto field :
       {&Rates::sent_bytes, &Rates::received_bytes, &Rates::sent_packets, &Rates::received_packets,
        &Rates::requests, &Rates::receives, &Rates::retransmissions, &Rates::rnr}) {
    add(sum.*field, more.*field);
  }
  return sum;
}

double Pair::seconds() const {
  if (before.at == Sample{}.at) return 0;
  return std::chrono::duration<double>(now.at - before.at).count();
}

const Process* before_of(const Pair& looks, const Process& now) {
  const auto found = std::ranges::find_if(looks.before.processes, [&](const Process& p) {
    return p.pid == now.pid && p.program == now.program && p.answers;
  });
  return found != looks.before.processes.end() && now.pid != 0 ? &*found : nullptr;
}

const QueuePair* before_of(const Process* before, const QueuePair& now) {
  if (before == nullptr) return nullptr;
  const auto found = std::ranges::find(before->queue_pairs, now.number, &QueuePair::number);
  if (found == before->queue_pairs.end() || found->completed > now.completed ||
      went_back(found->counters, now.counters)) {
    return nullptr;
  }
  return &*found;
}

const Port* before_of(const Process* before, const Port& now) {
  return before != nullptr ? find(before->ports, now) : nullptr;
}

const Port* kernel_port_before(const Pair& looks, const Port& now) {
  return find(looks.before.kernel_ports, now);
}

std::optional<Rates> rates_of(const Port* before, const Port& now, double seconds) {
  if (before == nullptr || seconds <= 0) return std::nullopt;
  const auto traffic = [&](std::string_view name) {
    return rate_of_all(before->counters, now.counters, seconds, {name});
  };
  const auto hardware = [&](std::initializer_list<std::string_view> names) {
    return rate_of_all(before->hardware, now.hardware, seconds, names);
  };
  return Rates{.sent_bytes = times(traffic("port_xmit_data"), kWord),
               .received_bytes = times(traffic("port_rcv_data"), kWord),
               .sent_packets = traffic("port_xmit_packets"),
               .received_packets = traffic("port_rcv_packets"),
               .requests = std::nullopt,
               .receives = hardware({"rdma_recvs"}),
               .retransmissions = hardware({"retransmitted_pkts"}),
               .rnr = hardware({"rcvd_rnr_err", "send_rnr_err", "rnr_nak_retry_err"})};
}

std::optional<Rates> rates_of(const QueuePair* before, const QueuePair& now, double seconds) {
  if (before == nullptr || seconds <= 0) return std::nullopt;
  const auto rate = [&](std::string_view name) {
    return per_second(value_of(before->counters, name), value_of(now.counters, name), seconds);
  };
  return Rates{.sent_bytes = rate("sent_bytes"),
               .received_bytes = rate("rcvd_bytes"),
               .sent_packets = rate("sent_pkts"),
               .received_packets = rate("rcvd_pkts"),
               .requests = per_second(before->completed, now.completed, seconds),
               .receives = rate("rdma_recvs"),
               .retransmissions = rate("retransmitted_pkts"),
               .rnr = rate("rcvd_rnr_err") + rate("send_rnr_err")};
}

std::optional<Rates> rates_of(const Pair& looks, const Process& process, const Port& port) {
  const Process* const before = before_of(looks, process);
  auto rates = rates_of(before_of(before, port), port, looks.seconds());
  if (!rates) return rates;
  // A process of an earlier version tells nothing of its queue pairs.
  if (process.queue_pairs.empty() && process.unlisted > 0) return rates;
  rates->requests = 0;
  for (const QueuePair& pair : process.queue_pairs) {
    if (pair.device != port.device) continue;
    const auto of_pair = rates_of(before_of(before, pair), pair, looks.seconds());
    if (of_pair) add(rates->requests, of_pair->requests);
  }
  return rates;
}

std::optional<double> rate_of(const Counters* before, const Counters& now, std::string_view name,
                              double seconds) {
  if (before == nullptr || seconds <= 0) return std::nullopt;
  return per_second(value_of(*before, name), value_of(now, name), seconds);
}

}  // namespace verbena::top
