#include "tools/bench/ends/data_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <random>

namespace verbena::bench {
namespace {

constexpr std::size_t kNameSize = 16;

std::string random_name() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device random;
  std::string name(kNameSize, '0');
  for (char& digit : name) digit = kDigits[random() % kDigits.size()];
  return name;
}

/// A stranger that connects and says nothing holds nobody up for long.
bool says(const Socket& socket, const std::string& name) {
  const timeval patience{.tv_sec = 2, .tv_usec = 0};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string said(kNameSize, '\0');
  const ssize_t n = ::recv(socket.fd(), said.data(), said.size(), MSG_WAITALL);
  const timeval forever{};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof forever);
  return n == static_cast<ssize_t>(kNameSize) && said == name;
}

}  // namespace

Socket accept_data_socket(Meeting& meeting) {
  const std::string name = random_name();
  meeting.control.send(name);
  const rdma::Deadline until = Control::kPatience;
  for (;;) {
    Socket socket = accept_from(*meeting.listener, until);
    if (!says(socket, name)) continue;
    meeting.control.send("connected");
    return socket;
  }
}

Socket connect_data_socket(Meeting& meeting) {
  const std::string name = meeting.control.recv();
  Socket socket = connect_to(meeting.server, Control::kPatience);
  if (::send(socket.fd(), name.data(), name.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(name.size())) {
    throw Failed{"the measured TCP connection ended before its first byte"};
  }
  (void)meeting.control.recv();
  return socket;
}

}  // namespace verbena::bench
