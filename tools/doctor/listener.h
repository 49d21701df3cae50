#pragma once

#include <cstdint>
#include <string>

namespace verbena::doctor {

/// `verbena doctor --listen`: until a signal ends it, answers a doctor on another host. It returns
/// messages by RDMA, datagrams by UDP, and says over TCP what it sees of its clients. Needs the
/// preload library in this process.
struct ListenOptions {
  std::uint16_t port = 0;
  std::string at;     // an address; empty: every one
  bool json = false;  // the first line is JSON, for the doctor's own child
};
int listen_for_doctors(const ListenOptions& options);

}  // namespace verbena::doctor
