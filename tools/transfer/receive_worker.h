#pragma once

// A thread of the receiver with a queue pair of its own: checks the hash of each chunk that
// arrives, stores it, and gives the slot back.

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "rdma++/connection.h"
#include "rdma++/listener.h"
#include "tools/transfer/part_file.h"
#include "tools/transfer/slots.h"
#include "tools/transfer/tally.h"

namespace verbena::transfer {

/// What a thread needs of the session. Called by several threads at once.
struct ChunkSink {
  /// nullptr: no such file is open any more.
  std::function<std::shared_ptr<PartFile>(std::uint64_t id)> find;
  /// The file can't be stored.
  std::function<void(std::uint64_t id, const std::exception& why)> failed;
  /// The session can't go on.
  std::function<void(const std::string& why)> broken;
};

class ReceiveWorker {
 public:
  /// Accepts the queue pair; from then on the sender may write into the slots.
  ReceiveWorker(rdma::ConnectionRequest& request, rdma::ConnectionOptions options,
                const Slots& slots, ChunkSink sink, Tally& tally);
  ReceiveWorker(const ReceiveWorker&) = delete;
  ReceiveWorker& operator=(const ReceiveWorker&) = delete;
  ~ReceiveWorker();

 private:
  static rdma::Connection accept(rdma::ConnectionRequest& request, rdma::ConnectionOptions options,
                                 const Slots& slots, const rdma::ProtectionDomain& pd,
                                 const rdma::Buffer& memory);
  void run(const std::stop_token& stop);
  void work(const std::stop_token& stop);
  void take(const rdma::Completion& done);
  [[nodiscard]] Stored store(std::uint32_t slot);

  ChunkSink sink_;
  Tally& tally_;
  Slots layout_;
  rdma::ProtectionDomain pd_;
  rdma::Buffer memory_;  // the queue pair goes first
  rdma::Connection connection_;
  std::jthread thread_;
};

}  // namespace verbena::transfer
