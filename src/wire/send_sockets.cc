#include "wire/send_sockets.h"

#include <cerrno>

#include "wire/system.h"
#include "wire/udp_socket.h"

namespace verbena::wire {
namespace {

constexpr std::uint32_t kPorts = 0x1'0000u - SendSockets::kFirstPort;
// Ports that other programs hold are few; with half of them taken this fails once in 2^64.
constexpr int kTries = 64;

}  // namespace

void SendSockets::add_address(const LocalAddress& local) {
  if (pool_of(local.address) == nullptr) pools_.push_back({local, {}, {}});
}

Result<std::uint16_t> SendSockets::port_for(const IpAddress& address, Qpn qpn) {
  Pool* pool = pool_of(address);
  if (pool == nullptr) {
    return Error{EADDRNOTAVAIL, "source port at " + address.text() +
                                    ": the address is not open; call open_address() first"};
  }
  if (pool->sockets.size() < kPerAddress) {
    const auto grown = grow(*pool);
    if (grown) return pool->sockets.back()->port;
    // Out of descriptors or ports: share what there is.
    if (pool->sockets.empty()) return grown.error();
  }
  return pool->sockets[qpn.value() % pool->sockets.size()]->port;
}

Status SendSockets::grow(Pool& pool) {
  for (int i = 0; i < kTries; ++i) {
    const auto port =
        static_cast<std::uint16_t>(kFirstPort + random_number<std::uint32_t>() % kPorts);
    auto opened = open_send_socket(pool.local, port);
    if (!opened && opened.error().code == EADDRINUSE) continue;
    if (!opened) return opened.error();
    auto socket = std::make_unique<SendSocket>();
    socket->fd = std::move(opened).value();
    socket->local = pool.local;
    socket->port = port;
    pool.by_port.emplace(port, socket.get());
    pool.sockets.push_back(std::move(socket));
    return Ok{};
  }
  return Error{EADDRINUSE, "bind UDP " + pool.local.address.text() + ": " + std::to_string(kTries) +
                               " random ports in 49152-65535 were all in use; see who holds "
                               "them with `ss -uan`"};
}

SendSocket* SendSockets::find(const IpAddress& address, std::uint16_t port) {
  Pool* pool = pool_of(address);
  if (pool == nullptr) return nullptr;
  if (port == 0) return pool->sockets.empty() ? nullptr : pool->sockets.front().get();
  const auto it = pool->by_port.find(port);
  return it == pool->by_port.end() ? nullptr : it->second;
}

void SendSockets::close() { pools_.clear(); }

SendSockets::Pool* SendSockets::pool_of(const IpAddress& address) {
  for (Pool& pool : pools_) {
    if (pool.local.address == address) return &pool;
  }
  return nullptr;
}

}  // namespace verbena::wire
