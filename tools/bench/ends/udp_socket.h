#pragma once

// A UDP socket that is connected to the other end's, beside the control connection.

#include "tools/bench/ends/ends.h"

namespace verbena::bench {

/// The server's, on the port of its listener if that is free.
[[nodiscard]] Socket accept_udp(Meeting& meeting);
[[nodiscard]] Socket connect_udp(Meeting& meeting);

/// recv() and send() that time out after this.
void set_patience(const Socket& socket, std::chrono::milliseconds patience);

/// Bytes of UDP payload that fit into a packet of the path, `most` at most.
[[nodiscard]] std::size_t segment_size(const Socket& socket, std::size_t most);

}  // namespace verbena::bench
