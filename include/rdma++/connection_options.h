// How a connection is to be.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "rdma++/access.h"
#include "rdma++/socket_address.h"
#include "rdma++/value.h"

namespace rdma {

class Connection;
class ProtectionDomain;
class CompletionQueue;
class SharedReceiveQueue;

struct ConnectionOptions {
  std::uint32_t send_depth = 128;  ///< requests in flight
  std::uint32_t recv_depth = 128;
  std::uint32_t send_sge = 4;
  std::uint32_t recv_sge = 4;
  std::uint32_t inline_size = 0;  ///< bytes that inline_data() may carry
  bool signal_all = false;
  Access access = Access::remote;  ///< what the peer may do at most; regions decide further

  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;                 ///< 7: for ever
  std::uint8_t min_rnr_timer = 7;             ///< 7: who finds no receive here waits 0.12 ms
  std::uint8_t max_rd_atomic = 16;            ///< READs and atomics in flight, each way
  std::optional<std::uint8_t> ack_timeout{};  ///< 4.096 µs * 2^n; else rdma_cm's choice

  /// For set-up, and for every call that waits and isn't told a deadline.
  std::chrono::milliseconds timeout{30'000};
  /// How long the destructor stays for a peer that hasn't got our last acknowledgement.
  std::chrono::milliseconds linger{1'000};

  /// Of the caller, for several connections. They must outlive the connection's creation only.
  const ProtectionDomain* pd = nullptr;
  const SharedReceiveQueue* srq = nullptr;
  const CompletionQueue* recv_cq = nullptr;  ///< then receives complete there; poll it yourself

  std::string device{};                   ///< connect(): speak from an address of this device
  std::optional<SocketAddress> source{};  ///< connect(): speak from this address

  /// Called when requests can be posted and before the peer can send: the place for receives.
  std::function<void(Connection&)> prepare{};

  /// Goes to the peer with the set-up: 56 bytes from connect(), 196 from accept().
  std::vector<std::byte> private_data{};
  template <Value T>
  ConnectionOptions& offer(const T& value) {
    private_data.resize(sizeof value);
    std::memcpy(private_data.data(), &value, sizeof value);
    return *this;
  }
};

}  // namespace rdma
