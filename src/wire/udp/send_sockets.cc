#include "wire/udp/send_sockets.h"

#include <cerrno>

#include "system/random.h"
#include "wire/udp/udp_socket.h"
#include "wire/udp/undelivered_reader.h"

namespace verbena::wire {
namespace {

constexpr std::uint32_t kPorts = 0x1'0000u - SendSockets::kFirstPort;
// Ports that other programs hold are few; with half of them taken this fails once in 2^64.
constexpr int kTries = 64;

Error not_open(const IpAddress& address) {
  return {EADDRNOTAVAIL, "source port at " + address.text() +
                             ": the address is not open; call open_address() first"};
}

}  // namespace

void SendSockets::add_address(const LocalAddress& local) {
  if (pool_of(local.address) == nullptr) pools_.push_back({.local = local});
}

Result<std::uint16_t> SendSockets::port_for(const IpAddress& address, Qpn qpn) {
  Pool* pool = pool_of(address);
  if (pool == nullptr) return not_open(address);
  if (pool->sockets.size() < kPerAddress) {
    auto opened = open(pool->local);
    if (opened) return pool->add(pool->sockets, std::move(opened).value());
    // Out of descriptors or ports: share what there is.
    if (pool->sockets.empty()) return opened.error();
  }
  return pool->sockets[qpn.value() % pool->sockets.size()]->port;
}

Result<std::uint16_t> SendSockets::management_port(const IpAddress& address) {
  Pool* pool = pool_of(address);
  if (pool == nullptr) return not_open(address);
  if (pool->management.size() < kManagementPorts) {
    auto opened = open(pool->local);
    if (opened) {
      (*opened)->tells = tell_undelivered((*opened)->fd, pool->local);
      return pool->add(pool->management, std::move(opened).value());
    }
    if (pool->management.empty()) return opened.error();
  }
  return pool->management[pool->next_management++ % pool->management.size()]->port;
}

std::uint16_t SendSockets::Pool::add(std::vector<std::unique_ptr<SendSocket>>& to,
                                     std::unique_ptr<SendSocket> socket) {
  by_port.emplace(socket->port, socket.get());
  to.push_back(std::move(socket));
  return to.back()->port;
}

Result<std::unique_ptr<SendSocket>> SendSockets::open(const LocalAddress& local) {
  for (int i = 0; i < kTries; ++i) {
    const auto port =
        static_cast<std::uint16_t>(kFirstPort + random_number<std::uint32_t>() % kPorts);
    auto opened = open_send_socket(local, port);
    if (!opened && opened.error().code == EADDRINUSE) continue;
    if (!opened) return opened.error();
    auto socket = std::make_unique<SendSocket>();
    socket->fd = std::move(opened).value();
    socket->local = local;
    socket->port = port;
    return socket;
  }
  return Error{EADDRINUSE, "bind UDP " + local.address.text() + ": " + std::to_string(kTries) +
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
