#include "wire/udp/receive_addresses.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <utility>

#include "system/kernel_calls.h"
#include "system/system_error.h"
#include "wire/udp/udp_socket.h"

namespace verbena::wire {

Status ReceiveAddresses::open(const LocalAddress& local) {
  for (const auto& address : addresses_) {
    if (!address->group || address->socket.local.address != local.address) continue;
    if (address->interface() == local.interface || !local.address.is_link_local()) return Ok{};
    return Error{EBUSY, local.address.text() +
                            " is in use on another interface: one process can use a "
                            "link-local address on one of them only"};
  }
  auto opened = open_receive_socket(local);
  if (!opened) return opened.error();
  auto address =
      std::make_unique<ReceiveAddress>(ReceiveSocket{std::move(opened).value(), local, 0});
  address->group.emplace(registry_.table(), registry_.slot(), local, address->socket.fd.get());
  address->group->renew();
  return add(std::move(address));
}

Status ReceiveAddresses::join(const LocalAddress& group) {
  if (ReceiveAddress* joined = find_group(group)) {
    ++joined->members;
    return Ok{};
  }
  auto opened = open_multicast_socket(group);
  if (!opened) return opened.error();
  auto address =
      std::make_unique<ReceiveAddress>(ReceiveSocket{std::move(opened).value(), group, 0});
  address->members = 1;
  return add(std::move(address));
}

void ReceiveAddresses::leave(const LocalAddress& group) {
  ReceiveAddress* joined = find_group(group);
  if (joined == nullptr || --joined->members > 0) return;
  std::erase_if(addresses_, [&](const auto& a) { return a.get() == joined; });
}

Status ReceiveAddresses::add(std::unique_ptr<ReceiveAddress> address) {
  addresses_.reserve(addresses_.size() + 1);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = address.get();
  const int fd = address->socket.fd.get();
  if (kernel::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    return system_error(errno, "epoll_ctl for UDP " + address->socket.local.address.text());
  }
  addresses_.push_back(std::move(address));
  return Ok{};
}

ReceiveAddress* ReceiveAddresses::find_group(const LocalAddress& group) {
  for (const auto& address : addresses_) {
    const LocalAddress& local = address->socket.local;
    if (address->members > 0 && local.address == group.address &&
        local.interface == group.interface) {
      return address.get();
    }
  }
  return nullptr;
}

std::size_t ReceiveAddresses::find_ready(std::span<ReceiveAddress*, kMostAtOnce> into) const {
  std::array<epoll_event, kMostAtOnce> ready;
  const int count = kernel::epoll_wait(epoll_fd_, ready.data(), static_cast<int>(ready.size()), 0);
  std::size_t found = 0;
  for (int i = 0; i < count; ++i) {
    auto* address = static_cast<ReceiveAddress*>(ready[static_cast<std::size_t>(i)].data.ptr);
    if (address != nullptr) into[found++] = address;  // null: a full socket has room again
  }
  return found;
}

std::uint32_t ReceiveAddresses::receive_buffer() const {
  return addresses_.empty() ? 0 : wire::receive_buffer(addresses_.front()->socket.fd);
}

unsigned ReceiveAddresses::interface_of(const IpAddress& address) const {
  for (const auto& a : addresses_) {
    if (a->socket.local.address == address) return a->interface();
  }
  return 0;
}

void ReceiveAddresses::renew_groups() {
  for (const auto& address : addresses_) {
    if (address->group) address->group->renew();
  }
}

void ReceiveAddresses::attach_groups() {
  for (const auto& address : addresses_) {
    if (address->group) address->group->attach();
  }
}

void ReceiveAddresses::leave_all() {
  for (const auto& address : addresses_) {
    address->socket.fd.reset();
    if (address->group) address->group->left();
  }
  close();
}

}  // namespace verbena::wire
