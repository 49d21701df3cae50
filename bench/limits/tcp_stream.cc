// A TCP stream on 127.0.0.1, by writes of --size bytes: 10⁹ bytes a second, and the CPU seconds
// that 10⁹ bytes take at each end.

#include "tcp.h"

namespace {

using namespace limits;

struct Sender {
  std::atomic<double> cpu_seconds;
};

/// Until the receiver has closed.
void send_until_refused(int fd, const Options& options) {
  std::vector<char> message(options.size, 1);
  for (char content = 2;; ++content) {
    if (options.rewrite) std::memset(message.data(), content, message.size());
    for (std::size_t sent = 0; sent < message.size();) {
      const auto n = send(fd, message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) return;
      require(n > 0, "send");
      sent += static_cast<std::size_t>(n);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const TcpListener listener;
  auto& sender = shared<Sender>();
  const Child child{[&] {
    pin(options.first_core);
    const int fd = listener.connect();
    const double before = cpu_seconds();
    send_until_refused(fd, options);
    sender.cpu_seconds = cpu_seconds() - before;
  }};
  pin(options.second_core);
  const int fd = listener.accept();
  std::vector<char> buffer(std::max<std::size_t>(options.size, 256 * 1024));
  double bytes = 0;
  const double before = cpu_seconds();
  const auto start = Clock::now();
  while (seconds_since(start) < options.seconds) {
    const auto n = recv(fd, buffer.data(), buffer.size(), 0);
    require(n > 0, "recv");
    bytes += static_cast<double>(n);
  }
  const double seconds = seconds_since(start);
  const double used = cpu_seconds() - before;
  close(fd);
  child.join();
  print({{"gb_per_s", bytes / seconds / 1e9},
         {"sender_cpu_s_per_gb", sender.cpu_seconds / bytes * 1e9},
         {"receiver_cpu_s_per_gb", used / bytes * 1e9}});
}
