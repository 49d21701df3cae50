#pragma once

// What the two ends do together: the same transfers between every two kinds of memory.

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "labs/common/connect.h"
#include "labs/gpu/memory.h"

namespace gpu {

enum class Operation { write, read, send };

struct Transfer {
  Operation operation{};
  Kind from{}, to{};

  [[nodiscard]] std::string name() const {
    constexpr std::array kOperations{"WRITE", "READ", "SEND"};
    constexpr std::array kKinds{"GPU", "host"};
    return fmt::format("{:<5}  {:<4} to {:<4}", kOperations[static_cast<std::size_t>(operation)],
                       kKinds[static_cast<std::size_t>(from)],
                       kKinds[static_cast<std::size_t>(to)]);
  }
};

[[nodiscard]] inline std::vector<Transfer> all_transfers() {
  std::vector<Transfer> all;
  for (const auto operation : {Operation::write, Operation::read, Operation::send}) {
    all.push_back({operation, Kind::gpu, Kind::gpu});
    all.push_back({operation, Kind::host, Kind::gpu});
    all.push_back({operation, Kind::gpu, Kind::host});
  }
  return all;
}

constexpr std::size_t kMessages = 8;  // posted at once, each with a place of its own

/// One end's memory of both kinds.
struct Memories {
  Memories(const Device& device, const rdma::ProtectionDomain& pd, std::size_t size,
           const Settings& settings)
      : on_gpu{device, pd, Kind::gpu, kMessages * size, settings},
        on_host{device, pd, Kind::host, kMessages * size, settings} {}

  [[nodiscard]] const Memory& of(Kind kind) const { return kind == Kind::gpu ? on_gpu : on_host; }

  Memory on_gpu, on_host;
};

/// What the client must know of the server's.
struct Places {
  rdma::RemoteBuffer gpu, host;

  [[nodiscard]] const rdma::RemoteBuffer& of(Kind kind) const {
    return kind == Kind::gpu ? gpu : host;
  }
};

/// The ends take turns. `first_difference`: of what the sender of this has just checked.
struct Turn {
  std::uint64_t first_difference = 0;
};

/// Throws lab::Failed if a byte is wrong.
inline void check(const Transfer& transfer, std::uint64_t seed, std::uint64_t first_difference,
                  std::size_t size) {
  lab::check(first_difference == size, "{}, round {}: byte {} of {} isn't what was sent",
             transfer.name(), seed, first_difference, size);
}

/// The server's part of a round.
inline void serve(rdma::Connection& connection, const Memories& mine, const Transfer& transfer,
                  std::size_t size, std::uint64_t seed) {
  const Memory& memory =
      mine.of(transfer.operation == Operation::read ? transfer.from : transfer.to);
  if (transfer.operation == Operation::read) {
    memory.fill(seed);
    connection.send_value(Turn{});
    static_cast<void>(connection.recv_value<Turn>());  // it has all
    return;
  }
  if (transfer.operation == Operation::send) {
    for (std::size_t i = 0; i < kMessages; ++i) {
      connection.post(rdma::Recv{memory.slice(i * size, size)}).check();
    }
    connection.send_value(Turn{});
    for (std::size_t i = 0; i < kMessages; ++i) connection.wait().check();
  } else {
    static_cast<void>(connection.recv_value<Turn>());  // a WRITE tells nobody here
  }
  const std::size_t found = memory.first_difference(seed);
  connection.send_value(Turn{found});
  check(transfer, seed, found, memory.size());
}

/// Posts all messages at once, and waits for the last completion.
template <class Request>
std::chrono::duration<double> perform(rdma::Connection& connection, const Memory& memory,
                                      std::size_t size, const rdma::RemoteBuffer& there) {
  std::vector<Request> requests;
  for (std::size_t at = 0; at < kMessages * size; at += size) {
    if constexpr (std::is_same_v<Request, rdma::Send>) {
      requests.emplace_back(memory.slice(at, size));
    } else {
      requests.emplace_back(memory.slice(at, size), there.slice(at, size));
    }
  }
  requests.back().signaled();
  const auto start = std::chrono::steady_clock::now();
  connection.post(std::span{requests}).check();
  connection.wait().check();
  return std::chrono::steady_clock::now() - start;
}

/// The client's part of a round: how long the transfer took.
inline std::chrono::duration<double> run(rdma::Connection& connection, const Memories& mine,
                                         const Places& places, const Transfer& transfer,
                                         std::size_t size, std::uint64_t seed) {
  if (transfer.operation == Operation::read) {
    const Memory& into = mine.of(transfer.to);
    static_cast<void>(connection.recv_value<Turn>());  // it is filled
    const auto took = perform<rdma::Read>(connection, into, size, places.of(transfer.from));
    check(transfer, seed, into.first_difference(seed), into.size());
    connection.send_value(Turn{});
    return took;
  }
  const Memory& from = mine.of(transfer.from);
  from.fill(seed);
  std::chrono::duration<double> took{};
  if (transfer.operation == Operation::send) {
    static_cast<void>(connection.recv_value<Turn>());  // its receives are posted
    took = perform<rdma::Send>(connection, from, size, {});
  } else {
    took = perform<rdma::Write>(connection, from, size, places.of(transfer.to));
    connection.send_value(Turn{});
  }
  check(transfer, seed, connection.recv_value<Turn>().first_difference, from.size());
  return took;
}

}  // namespace gpu
