#pragma once

// The two kinds of UDP sockets that the wire uses, with all their options set.

#include <cstdint>

#include "base/result.h"
#include "system/fd.h"
#include "wire/udp/socket_address.h"

namespace verbena::wire {

/// Bytes of a socket's buffers that we ask the kernel for; it gives less where net.core.rmem_max or
/// net.core.wmem_max is smaller.
inline constexpr int kReceiveBuffer = 4 << 20;
inline constexpr int kSendBuffer = 4 << 20;

/// Bound to (address, 4791), shared with our user's other processes (SO_REUSEPORT). Tells
/// the traffic class, hop limit, GRO segment size and number of drops with each datagram.
[[nodiscard]] Result<Fd> open_receive_socket(const LocalAddress& local);

/// Bound to (group, 4791) and a member of it on one interface. Everybody who is gets a copy.
[[nodiscard]] Result<Fd> open_multicast_socket(const LocalAddress& group);

/// Bound to (address, port) alone. Never fragments, so the IPv4 identification is known;
/// whatever is sent to it is dropped by the kernel.
[[nodiscard]] Result<Fd> open_send_socket(const LocalAddress& local, std::uint16_t port);

/// Bytes of truesize that may wait in it; 0: the kernel doesn't say.
[[nodiscard]] std::uint32_t receive_buffer(const Fd& fd);

/// The MTU of the path to `destination` as the kernel knows it now; 0: it doesn't say.
[[nodiscard]] int path_mtu(const LocalAddress& local, const IpAddress& destination);

}  // namespace verbena::wire
