#pragma once

// The receiver's thread for the file system: decides what becomes of each entry, makes folders and
// links, gives complete files their names. It may be slow; the control connection stays awake.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tools/transfer/folder.h"
#include "tools/transfer/messages.h"
#include "tools/transfer/part_file.h"
#include "tools/transfer/receive_worker.h"
#include "tools/transfer/tally.h"

namespace verbena::transfer {

/// What becomes of something that is there already.
enum class Overwrite : std::uint8_t { refuse, ask, force, skip };

struct PlacementSettings {
  Overwrite overwrite = Overwrite::refuse;
  bool sync = true;
  std::uint32_t chunk_size = 0;
};

class Placement {
 public:
  struct Outside {
    std::function<void(std::vector<std::byte> message)> send;    // to the sender
    std::function<void(const std::string& why)> broken;          // the session can't go on
    std::function<bool(const std::string& path)> may_overwrite;  // waits for the answer
  };

  Placement(Folder& folder, const PlacementSettings& settings, Tally& tally, Outside outside);
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;
  ~Placement();

  /// A message of the sender's about an entry.
  void add(std::vector<std::byte> message);
  /// For the threads of the queue pairs.
  [[nodiscard]] std::shared_ptr<PartFile> find(std::uint64_t id);
  void failed(std::uint64_t id, const std::exception& why);

 private:
  struct Incoming {
    Entry entry;
    Place place;
    bool replace = false;
    std::shared_ptr<PartFile> part;  // null: compared with what is there
    std::vector<Hash> there;
  };

  void run();
  void handle(std::span<const std::byte> message);
  void handle(const Entry& entry);
  void handle(const Holes& holes);
  void handle(const Differs& differs);
  void handle(const Finish& finish);
  void handle(const GiveUp& give_up);
  void handle_done();

  void receive_folder(const Entry& entry, const Place& place);
  void receive_link(const Entry& entry, const Place& place);
  void receive_file(const Entry& entry, Place place);
  void compare(const Entry& entry, Place place);
  void start(const Entry& entry, Place place, bool replace);
  void finish_compared(const Finish& finish, Incoming& incoming);
  /// May it be overwritten? If not, the sender is told.
  [[nodiscard]] bool decide(const Entry& entry);
  [[nodiscard]] std::shared_ptr<Incoming> incoming(std::uint64_t id);
  [[nodiscard]] bool forget(std::uint64_t id);
  void result(std::uint64_t id, Outcome outcome, const std::string& text = "");
  void tell_hashes(std::uint64_t id, const std::vector<Hash>& hashes);
  template <class Message>
  void tell(const Message& message) {
    outside_.send(encode(message));
  }

  Folder& folder_;
  PlacementSettings settings_;
  Tally& tally_;
  Outside outside_;
  std::vector<Entry> folders_;  // their mode and time are set last

  std::mutex lock_;  // of what follows
  std::condition_variable changed_;
  std::deque<std::vector<std::byte>> waiting_;
  std::map<std::uint64_t, std::shared_ptr<Incoming>> open_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace verbena::transfer
