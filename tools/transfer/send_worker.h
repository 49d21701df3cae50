#pragma once

// A thread of the sender with a queue pair of its own: reads chunks, hashes them, writes them into
// slots of the receiver.

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rdma++/connection.h"
#include "tools/transfer/mailbox.h"
#include "tools/transfer/outgoing_file.h"
#include "tools/transfer/slots.h"
#include "tools/transfer/tally.h"

namespace verbena::transfer {

/// Spreads the bytes of all threads over time.
class Limit {
 public:
  explicit Limit(std::uint64_t bytes_per_second) : rate_{bytes_per_second} {}
  /// Before that many bytes are sent.
  void wait_for(std::size_t bytes, JobQueue& queue);

 private:
  std::uint64_t rate_;  // 0: none
  std::mutex lock_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now();
};

/// What the threads share.
struct SendShared {
  explicit SendShared(std::uint64_t bytes_per_second) : limit{bytes_per_second} {}

  JobQueue queue;
  Limit limit;
  Tally tally;
  Mailbox<std::shared_ptr<OutgoingFile>> settled;  // all chunks of it
  Mailbox<std::string> broken;                     // why a thread has ended
};

class SendWorker {
 public:
  SendWorker(rdma::Connection connection, const SlotMemory& remote, const Slots& slots,
             SendShared& shared);
  SendWorker(const SendWorker&) = delete;
  SendWorker& operator=(const SendWorker&) = delete;
  /// The queue must be closed.
  ~SendWorker();

  [[nodiscard]] static rdma::ConnectionOptions options(rdma::ConnectionOptions base,
                                                       const Slots& slots);

 private:
  struct Slot {
    Job job;
    bool busy = false;
    bool written = false;   // the verbs are done with its memory
    bool answered = false;  // the receiver is
    Stored answer = Stored::yes;
    int tries = 0;
  };

  void run();
  void work();
  void fill(std::size_t slot);
  /// False: the chunk needn't be sent, or can't be.
  [[nodiscard]] bool prepare(std::size_t slot);
  [[nodiscard]] bool read_chunk(const Job& job, std::size_t slot);
  void post(std::size_t slot);
  void take(const rdma::Completion& done);
  void conclude(std::size_t slot);
  void release(std::size_t slot);

  SendShared& shared_;
  Slots layout_;
  SlotMemory remote_;
  rdma::Buffer memory_;  // the queue pair goes first
  rdma::Connection connection_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
  std::jthread thread_;
};

}  // namespace verbena::transfer
