// Two processes send 64 B (--size) to each other over TCP on 127.0.0.1: half a round trip. Both
// sleep in recv(), or with --spin call it until it returns something.

#include "tcp.h"

namespace {

using namespace limits;

void say(int fd, const std::vector<char>& message) {
  require(send(fd, message.data(), message.size(), MSG_NOSIGNAL) ==
              static_cast<ssize_t>(message.size()),
          "send");
}

void hear(int fd, std::vector<char>& message, bool spin) {
  for (std::size_t have = 0; have < message.size();) {
    const auto n =
        recv(fd, message.data() + have, message.size() - have, spin ? MSG_DONTWAIT : MSG_WAITALL);
    require(n > 0 || (n < 0 && errno == EAGAIN), "recv");
    if (n > 0) have += static_cast<std::size_t>(n);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::vector<char> message(options.size, 1);
  const TcpListener listener;
  const Child echo{[&] {
    pin(options.second_core);
    const int fd = listener.connect();
    for (;;) {
      hear(fd, message, options.spin);
      say(fd, message);
    }
  }};
  pin(options.first_core);
  const int fd = listener.accept();
  print_half_round_trips(options, [&] {
    say(fd, message);
    hear(fd, message, options.spin);
  });
}
