#pragma once

// Serves metrics to scrapers, on one thread. No client can hold up another: each has a bounded
// buffer and a deadline, and where there are too many, the oldest goes.

#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <string>

namespace verbena::top {

struct ListenAddress {
  sockaddr_storage address{};
  socklen_t size = 0;
  bool loopback = false;
  std::string problem;  // empty: fine
};

/// "127.0.0.1:9464", "[::1]:9464"; numbers only, so that nobody's resolver is asked. Port 0: any.
[[nodiscard]] ListenAddress parse_listen_address(const std::string& text);

class MetricsServer {
 public:
  /// std::runtime_error: it can't listen there.
  explicit MetricsServer(const ListenAddress& where);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// "127.0.0.1:9464", with the port that it got.
  [[nodiscard]] std::string address() const;
  /// Until `stop` is readable. `metrics` makes the page, once for all who ask at the same time.
  void serve(int stop, const std::function<std::string()>& metrics);

 private:
  int listener_;
};

}  // namespace verbena::top
