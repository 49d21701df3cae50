#pragma once

// The command lines of `verbena send` and `verbena receive`. The program `verbena` has them for its
// help, manual page and completions; lib/verbena/transfer reads the same words again.

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace verbena::transfer {

inline constexpr std::uint16_t kPort = 7474;

struct CommonOptions {
  std::uint16_t port = kPort;
  std::string device;
  std::string key_file;
  double timeout = 30;  // seconds without a sign of life of the peer
  bool json = false;
};

struct SendOptions {
  CommonOptions common;
  std::vector<std::string> words;  // PATH… HOST
  std::uint64_t limit = 0;         // bytes a second; 0: none
};

struct ReceiveOptions {
  CommonOptions common;
  std::string folder;
  std::string address;  // empty: all of this machine
  bool force = false;
  bool skip = false;
  bool keep = false;
  bool no_sync = false;
  unsigned queue_pairs = 2;
  std::uint64_t window = 8 << 20;
};

CLI::App* add_send(CLI::App& app, SendOptions& options);
CLI::App* add_receive(CLI::App& app, ReceiveOptions& options);

/// The exit status.
int send(const SendOptions& options);
int receive(const ReceiveOptions& options);

}  // namespace verbena::transfer
