#include "labs/common/meeting.h"

#include <arpa/inet.h>

#include <array>
#include <optional>

#include "labs/common/bootstrap.h"

namespace lab {
namespace {

using Hello = std::array<std::uint32_t, 2>;  // count, rank; big-endian. Behind the badge

Hello hello_of(const Rank& rank) { return {htonl(rank.count), htonl(rank.number)}; }

bool is_loopback(const rdma::Gid& gid) {
  return gid.is_ipv4() ? gid.bytes[12] == 127 : gid == rdma::Gid::parse("::1");
}

std::string list_of(const std::vector<std::optional<rdma::TcpBootstrap>>& places) {
  std::string text;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i]) text += fmt::format("{}{}", text.empty() ? "" : ", ", i + 1);
  }
  return text;
}

}  // namespace

Meeting::Meeting(const Options& options, const Rank& rank) : rank_{rank} {
  const std::uint16_t port = rank.port != 0 ? rank.port : options.port;
  if (rank.number != 0) {
    go_to_root(options, port);
  } else if (rank.count > 1) {
    if (!rank_.listener) rank_.listener = std::make_shared<rdma::TcpListener>(port);
    wait_for_all(options, *rank_.listener);
    rank_.listener.reset();  // all have come
  } else {
    address_ = *rdma::Gid::parse("127.0.0.1");
  }
}

void Meeting::wait_for_all(const Options& options, rdma::TcpListener& listener) {
  std::vector<std::optional<rdma::TcpBootstrap>> places(rank_.count - 1);
  for (std::size_t missing = places.size(); missing > 0;) {
    try {
      rdma::TcpBootstrap guest = next_guest(options, listener);
      const auto hello = guest.recv_value<Hello>();
      const unsigned count = ntohl(hello[0]), number = ntohl(hello[1]);
      check(count == rank_.count && number > 0 && number < rank_.count,
            "{} says it is rank {} of {}; this is rank 0 of {}: do two runs use one --port?",
            guest.peer(), number, count, rank_.count);
      check(!places[number - 1],
            "two processes say that they are rank {}: do two runs use one --port?", number);
      if (address_.is_zero() || is_loopback(address_)) address_ = guest.local().gid();
      places[number - 1] = std::move(guest);
      --missing;
    } catch (const rdma::TimedOut&) {
      throw Failed{
          fmt::format("ranks {} of {} did not come to port {} within {} s; were they "
                      "started, and do they reach this machine as their --root?",
                      list_of(places), rank_.count, listener.port(), options.timeout)};
    }
  }
  for (auto& guest : places) others_.push_back(std::move(*guest));
}

void Meeting::go_to_root(const Options& options, std::uint16_t port) {
  others_.push_back(meet_by_tcp(options, rank_.root, port));
  address_ = others_.front().local().gid();
  others_.front().send_value(hello_of(rank_));
}

namespace {

rdma::ConnInfo decoded(const rdma::ConnInfo::Wire& wire, unsigned from) {
  const auto info = rdma::ConnInfo::decode(wire);
  check(info.has_value(), "what rank {} has for this one is no ConnInfo", from);
  return *info;
}

}  // namespace

std::vector<rdma::ConnInfo> Meeting::exchange_at_root(const std::vector<rdma::ConnInfo>& mine) {
  std::vector<std::vector<rdma::ConnInfo::Wire>> rows(rank_.count);  // [from][to]
  for (const rdma::ConnInfo& info : mine) rows[0].push_back(info.encode());
  for (unsigned from = 1; from < rank_.count; ++from) {
    rows[from].resize(rank_.count);
    for (auto& wire : rows[from]) others_[from - 1].recv_bytes(wire);
  }
  for (unsigned to = 1; to < rank_.count; ++to) {
    for (unsigned from = 0; from < rank_.count; ++from) others_[to - 1].send_bytes(rows[from][to]);
  }
  std::vector<rdma::ConnInfo> theirs;
  for (unsigned from = 0; from < rank_.count; ++from) {
    theirs.push_back(decoded(rows[from][0], from));
  }
  return theirs;
}

std::vector<rdma::ConnInfo> Meeting::exchange(const std::vector<rdma::ConnInfo>& mine) {
  if (rank_.number == 0) return exchange_at_root(mine);
  rdma::TcpBootstrap& root = others_.front();
  for (const rdma::ConnInfo& info : mine) root.send_bytes(info.encode());
  std::vector<rdma::ConnInfo> theirs;
  for (unsigned from = 0; from < rank_.count; ++from) {
    rdma::ConnInfo::Wire wire;
    root.recv_bytes(wire);
    theirs.push_back(decoded(wire, from));
  }
  return theirs;
}

void Meeting::barrier() {
  constexpr std::uint8_t kHere = 1;
  const auto send = [&] {
    for (auto& other : others_) other.send_value(kHere);
  };
  const auto receive = [&] {
    for (auto& other : others_) static_cast<void>(other.recv_value<std::uint8_t>());
  };
  if (rank_.number == 0) {
    receive();
    send();
  } else {
    send();
    receive();
  }
}

}  // namespace lab
