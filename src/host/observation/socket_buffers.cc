#include "host/observation/socket_buffers.h"

#include <fmt/format.h>

#include "wire/udp/udp_socket.h"

namespace verbena::host {

std::string socket_buffers_as_json() {
  return fmt::format(R"({{"receive":{},"send":{}}})", wire::kReceiveBuffer, wire::kSendBuffer);
}

}  // namespace verbena::host
