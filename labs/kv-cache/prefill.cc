// Prefill, the server: steps 1, 2, 3 and 7.

#include "labs/common/bootstrap.h"
#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/kv-cache/block_pool.h"
#include "labs/kv-cache/settings.h"

namespace {

class Prefill {
 public:
  Prefill(const lab::Options& options, rdma::ConnectionRequest& request)
      : options_{options},
        requests_{lab::offered<Plan>(request).requests},
        pd_{request.context()},
        cache_{pd_, settings.slots * slot_size(options.size), rdma::Access::remote_read},
        tables_{pd_, kAhead * sizeof(BlockTable)},
        connection_{accept(request)},
        pool_{settings.slots} {}

  void run() {
    lab::Work work;
    while (announced_ < requests_) announce(compute(static_cast<std::uint32_t>(announced_)));
    while (finished_ < requests_ || sent_ < requests_) take_completion();
    const lab::Cost cost = work.done({.needed = requests_});
    // A table's SEND and a `done` for each request. The READs complete at the other end only.
    lab::check(cost.completions == 2 * requests_, "took {} completions instead of {}",
               cost.completions, 2 * requests_);
    lab::wait_for_goodbye(options_, connection_);
    lab::say("{} blocks computed, {} found in the cache; {} of {} requests waited for a free slot",
             computed_, found_, held_up_, requests_);
    lab::say("{} completions, 2 for each request; none for a READ", cost.completions);
  }

 private:
  /// 1. The cache is the capability: decode may READ all of it, at any time.
  rdma::Connection accept(rdma::ConnectionRequest& request) {
    rdma::ConnectionOptions answer = lab::within(options_);
    answer.pd = &pd_;
    answer.recv_depth = kAhead;
    answer.prepare = [](rdma::Connection& connection) {
      for (std::uint32_t i = 0; i < kAhead; ++i) connection.post(rdma::Recv{}).check();
    };
    answer.offer(Offer{cache_.remote(), settings.slots, options_.size, settings.lease ? 1u : 0u});
    return lab::accept(options_, request, answer);
  }

  /// 2. Blocks that an earlier prompt had as well are there already. The others need slots that
  ///    nobody uses. Without one, prefill waits until decode is done with a request.
  BlockTable compute(std::uint32_t request) {
    const Hashes hashes = hashes_of(request);
    auto taken = pool_.take(hashes);
    if (!taken) ++held_up_;
    for (; !taken; taken = pool_.take(hashes)) take_completion();
    BlockTable table{.request = request};
    for (std::uint32_t number = 0; number < kPromptBlocks; ++number) {
      const auto& [place, found] = taken->at(number);
      table.places.at(number) = place;
      table.found += found ? 1 : 0;
      if (!found) {
        compute_block(block_in(place.slot), {hashes.at(number), number, place.generation});
      }
    }
    found_ += table.found;
    computed_ += kPromptBlocks - table.found;
    return table;
  }

  /// 3. The bytes of the blocks stay here. Decode learns where they are.
  void announce(const BlockTable& table) {
    while (announced_ - finished_ == kAhead || announced_ - sent_ == kAhead) take_completion();
    const std::size_t place = announced_++ % kAhead;
    tables_.as<BlockTable>()[place] = table;
    const auto message = tables_.slice(place * sizeof table, sizeof table);
    connection_.post(rdma::Send{message}.signaled()).check();
    leases_[table.request] = table;
    if (!settings.lease) end_lease(table.request);
  }

  /// 7. Only decode knows when it has read a request's blocks for the last time.
  void end_lease(std::uint32_t request) {
    const auto lease = leases_.find(request);
    if (lease == leases_.end()) return;
    for (const Place& place : lease->second.places) pool_.give_back(place.slot);
    leases_.erase(lease);
  }

  void take_completion() {
    const auto done = connection_.wait(options_.deadline);
    lab::in_time(done.has_value(), "decode's word that it is done with a request");
    lab::check(done->ok() || connection_.connected(), "decode hung up");
    done->check();
    if (!done->is_receive()) {
      ++sent_;
      return;
    }
    connection_.post(rdma::Recv{}).check();
    ++finished_;
    end_lease(done->imm());
  }

  [[nodiscard]] std::span<std::byte> block_in(std::uint32_t slot) const {
    const std::uint64_t size = slot_size(options_.size);
    return cache_.bytes().subspan(slot * size, sizeof(Tag) + options_.size);
  }

  const lab::Options& options_;
  std::uint64_t requests_;
  rdma::ProtectionDomain pd_;
  rdma::Buffer cache_;
  rdma::Buffer tables_;  // on their way
  rdma::Connection connection_;
  BlockPool pool_;
  std::unordered_map<std::uint32_t, BlockTable> leases_;   // by request
  std::uint64_t announced_ = 0, sent_ = 0, finished_ = 0;  // requests
  std::uint64_t computed_ = 0, found_ = 0;                 // blocks
  std::uint64_t held_up_ = 0;                              // requests
};

}  // namespace

void prefill(const lab::Options& options) {
  lab::check_memory(settings.slots * slot_size(options.size));
  rdma::Listener listener = lab::listen(options);
  rdma::ConnectionRequest request = lab::next_request(options, listener);
  Prefill{options, request}.run();
}
