#pragma once

// A real rdma_cm connection to HOST, and messages both ways.

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/doctor/sockets.h"

namespace verbena::doctor {

enum class Answer {
  none,         // the process that asked could not, or nobody answered in time
  established,  // the listener of a doctor
  rejected,     // a connection manager answered: nobody listens there
  unreachable,  // ICMP, as rdma_cm tells it
  no_device,    // the route's interface has none
};

struct ConnectionProbe {
  Answer answer = Answer::none;
  int error = 0;        // errno, or the reason of a rejection
  std::string problem;  // in words; empty: none
  std::string device;
  std::uint32_t mtu = 0;    // bytes of a packet that it wants to send; 0: unknown
  bool small_back = false;  // a message of one short packet came back
  bool large_back = false;  // and one of several full ones
  std::string way;          // of this process's connections: shm, udp
};

/// Needs the preload library in this process.
[[nodiscard]] ConnectionProbe probe_connection(const Address& to,
                                               std::chrono::milliseconds patience);

[[nodiscard]] nlohmann::json to_json_object(const ConnectionProbe& probe);
/// nlohmann::json::exception: something else.
[[nodiscard]] ConnectionProbe connection_probe_in(const nlohmann::json& object);

/// In a child with the library.
[[nodiscard]] ConnectionProbe probe_in_child(const std::string& host, std::uint16_t port);

}  // namespace verbena::doctor
