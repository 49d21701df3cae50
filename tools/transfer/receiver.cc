#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>

#include "tools/transfer/folder.h"
#include "tools/transfer/interrupts.h"
#include "tools/transfer/names.h"
#include "tools/transfer/options.h"
#include "tools/transfer/receive_session.h"

namespace verbena::transfer {
namespace {

rdma::Listener listen_as(const ReceiveOptions& options) {
  const CommonOptions& common = options.common;
  try {
    if (!options.address.empty()) {
      return rdma::Listener{rdma::SocketAddress::of(options.address, common.port)};
    }
    return rdma::Listener::on_device(common.device, common.port);
  } catch (const rdma::Error& error) {
    if (error.code() != EADDRINUSE) throw;
    throw std::runtime_error{
        fmt::format("port {} is in use, perhaps by another verbena receive; give both ends --port",
                    common.port)};
  }
}

bool is_control(const rdma::ConnectionRequest& request) {
  try {
    const auto asked = decode_fixed<QueuePairRequest>(request.private_data());
    return asked.magic == kMagic && asked.version == kVersion &&
           asked.index == QueuePairRequest::kControl;
  } catch (const Malformed&) {
    return false;
  }
}

Overwrite overwrite_of(const ReceiveOptions& options) {
  if (options.force) return Overwrite::force;
  if (options.skip) return Overwrite::skip;
  return isatty(STDIN_FILENO) == 1 && !options.common.json ? Overwrite::ask : Overwrite::refuse;
}

/// The next sender. Turns away what isn't one.
rdma::ConnectionRequest next_sender(rdma::Listener& listener, SameUserDoor& door) {
  while (true) {
    std::array waiting{pollfd{.fd = listener.fd(), .events = POLLIN, .revents = 0},
                       pollfd{.fd = door.fd(), .events = POLLIN, .revents = 0}};
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) throw_errno("poll");
    if (waiting[1].revents != 0) door.answer();
    if (waiting[0].revents == 0) continue;
    auto request = listener.next(rdma::Deadline{std::chrono::seconds{0}});
    if (request && is_control(*request)) return std::move(*request);
    if (request) request->reject(rejection("it speaks another version, or is no verbena send"));
  }
}

}  // namespace

int receive(const ReceiveOptions& options) {
  Folder folder{options.folder};
  std::optional<Secret> key;
  if (!options.common.key_file.empty()) key = read_key(options.common.key_file);
  SameUserDoor door{options.common.port};  // before a sender can connect
  rdma::Listener listener = listen_as(options);
  const SessionSettings settings{.common = options.common,
                                 .overwrite = overwrite_of(options),
                                 .sync = !options.no_sync,
                                 .queue_pairs = options.queue_pairs,
                                 .window = options.window};
  if (options.common.json) {
    fmt::print("{{\"event\":\"listening\",\"port\":{}}}\n", options.common.port);
  } else {
    fmt::print("receiving into {} on port {}, from {}; not encrypted\n", printable(options.folder),
               options.common.port,
               key ? "processes of this user on this host and whoever has the key"
                   : "processes of this user on this host (others need --key-file)");
  }
  std::fflush(stdout);
  int status = 0;
  do {
    rdma::ConnectionRequest request = next_sender(listener, door);
    const auto ended = serve(request, {settings, folder, listener, door, key});
    if (ended == kExitInterrupted) return ended;
    if (ended == kNotServed) continue;
    status = ended;
    if (!options.keep) return status;
  } while (true);
}

}  // namespace verbena::transfer
