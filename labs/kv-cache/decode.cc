// Decode, the client: steps 4, 5 and 6.

#include <deque>

#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/common/percentile.h"
#include "labs/common/rounds.h"
#include "labs/kv-cache/sequence.h"
#include "labs/kv-cache/settings.h"

namespace {

using Clock = std::chrono::steady_clock;

Offer offer_of(const rdma::Connection& connection) {
  const auto offer = lab::offered<Offer>(connection);
  lab::check(offer.slots >= kPromptBlocks && offer.block_size != 0 &&
                 offer.cache.length / offer.slots == slot_size(offer.block_size),
             "the server offers a cache of {} bytes in {} slots for blocks of {} bytes",
             offer.cache.length, offer.slots, offer.block_size);
  return offer;
}

class Decode {
 public:
  explicit Decode(const lab::Options& options)
      : options_{options},
        connection_{connect()},
        offer_{offer_of(connection_)},
        read_size_{sizeof(Tag) + offer_.block_size},
        landing_{connection_.buffer(settings.depth * read_size_)} {}

  void run() {
    lab::say("slots of the cache: {}; bytes of a block: {}; READs in flight: {}", offer_.slots,
             offer_.block_size, settings.depth);
    lab::Rounds progress{options_.iters};
    lab::Work work;
    const auto start = Clock::now();
    while (finished_ < options_.iters) {
      fill_batch();
      for (const Sequence& sequence : batch_) {
        for (const std::uint32_t number : sequence.needs()) fetch(sequence, number);
      }
      while (!fetches_.empty()) take_completion();
      for (Sequence& sequence : batch_) {
        sequence.finish_step();
        if (sequence.finished()) say_done(sequence);
      }
      finished_ += std::erase_if(batch_, [](const Sequence& one) { return one.finished(); });
      progress.done(finished_);
    }
    while (words_in_flight_ > 0) take_completion();
    const std::chrono::duration<double> took = Clock::now() - start;
    work.done({.needed = times_.size() + finished_});
    lab::say_goodbye(options_, connection_);
    report(took.count());
  }

 private:
  static constexpr std::size_t kBatch = 4;  // requests that are decoded together

  struct Fetch {
    std::uint32_t request = 0;
    Place place{};
    Tag wanted{};
    std::span<const std::byte> landed{};
    Clock::time_point posted{};
  };

  /// A receive for each block table that can be under way.
  rdma::Connection connect() {
    rdma::ConnectionOptions wanted = lab::within(options_);
    wanted.recv_depth = kAhead;
    wanted.offer(Plan{options_.iters});
    wanted.prepare = [this](rdma::Connection& connection) {
      tables_.emplace(connection.buffer(kAhead * sizeof(BlockTable)));
      for (std::uint32_t i = 0; i < kAhead; ++i) post_receive(connection, i);
    };
    return lab::connect(options_, wanted);
  }
  void post_receive(const rdma::Connection& connection, std::uint64_t i) const {
    const auto place = tables_->slice(i * sizeof(BlockTable), sizeof(BlockTable));
    connection.post(rdma::Recv{place}.id(i)).check();
  }

  /// 4. Several requests are decoded together, a token of each at a time.
  void fill_batch() {
    while (batch_.empty() && announced_.empty()) take_completion();
    for (; batch_.size() < kBatch && !announced_.empty(); announced_.pop_front()) {
      batch_.emplace_back(announced_.front());
      found_ += announced_.front().found;
    }
  }

  /// 5. The blocks lie scattered. A READ for each; the peer's program doesn't notice.
  void fetch(const Sequence& sequence, std::uint32_t number) {
    while (fetches_.size() == settings.depth) take_completion();
    const std::size_t at = posted_++ % settings.depth * read_size_;
    const Place place = sequence.place_of(number);
    const auto slot = slot_size(offer_.block_size);
    fetches_.push_back({.request = sequence.request(),
                        .place = place,
                        .wanted = sequence.tag_of(number),
                        .landed = landing_.bytes().subspan(at, read_size_),
                        .posted = Clock::now()});
    rdma::Read read{landing_.slice(at, read_size_),
                    offer_.cache.slice(place.slot * slot, read_size_)};
    connection_.post(read.signaled()).check();
  }

  /// 6. The READ succeeds in any case. Only the block itself can say whether it is the right one.
  void check_block(const Fetch& fetch) {
    const Found found = inspect(fetch.landed, fetch.wanted);
    if (found == Found::whole) return;
    if (found == Found::reused && reused_ == 0) {
      lab::say("request {}, block {}: slot {} is in generation {}, the block table says {}",
               fetch.request, fetch.wanted.number, fetch.place.slot,
               tag_of(fetch.landed).generation, fetch.place.generation);
    }
    ++(found == Found::reused ? reused_ : torn_);
    lab::check(offer_.lease == 0, "a block was {} before decode was done with it",
               found == Found::reused ? "reused" : "torn");
  }

  /// 7. All READs of the request have completed. A word behind READs that are still under way
  ///    could be too early: a READ whose answer gets lost reads again.
  void say_done(const Sequence& sequence) {
    connection_.post(rdma::Send{}.imm(sequence.request()).signaled()).check();
    ++words_in_flight_;
  }

  void take_completion() {
    const auto done = connection_.wait(options_.deadline);
    lab::in_time(done.has_value(), "{}", fetches_.empty() ? "a block table" : "a block");
    lab::check(done->ok() || connection_.connected(), "prefill hung up");
    done->check();
    if (done->is_receive()) {
      announced_.push_back(tables_->as<BlockTable>()[done->id()]);
      post_receive(connection_, done->id());
    } else if (done->opcode == IBV_WC_SEND) {
      --words_in_flight_;
    } else {
      const Fetch fetch = fetches_.front();  // READs complete in the order of posting
      fetches_.pop_front();
      const std::chrono::duration<double, std::micro> took = Clock::now() - fetch.posted;
      times_.push_back(took.count());
      check_block(fetch);
    }
  }

  void report(double seconds) const {
    const auto bytes = static_cast<double>(times_.size() * offer_.block_size);
    const double median = lab::percentile(times_, 0.5), p99 = lab::percentile(times_, 0.99);
    lab::say("{} blocks fetched, {:.1f} MB in {:.0f} ms; a fetch takes {:.0f} us, p99 {:.0f} us",
             times_.size(), bytes / 1e6, seconds * 1e3, median, p99);
    if (offer_.lease == 0) {
      lab::shown(
          "without a lease {} of {} READs brought another block and {} a torn one; all completed "
          "with success",
          reused_, times_.size(), torn_);
      return;
    }
    lab::shown(
        "{} READs ({:.1f} MB), all blocks whole: median {:.0f} us, p99 {:.0f} us; {} of {} blocks "
        "shared; prefill: 0 completions for READs",
        times_.size(), bytes / 1e6, median, p99, found_, finished_ * kPromptBlocks);
  }

  const lab::Options& options_;
  std::optional<rdma::Buffer> tables_;  // that come
  rdma::Connection connection_;
  Offer offer_;
  std::size_t read_size_;
  rdma::Buffer landing_;
  std::deque<BlockTable> announced_;
  std::vector<Sequence> batch_;
  std::deque<Fetch> fetches_;  // in flight
  std::uint64_t posted_ = 0;   // READs
  std::uint64_t words_in_flight_ = 0;
  std::uint64_t finished_ = 0;           // requests
  std::uint64_t found_ = 0;              // blocks
  std::uint64_t reused_ = 0, torn_ = 0;  // READs
  std::vector<double> times_;            // of each fetch, in microseconds
};

}  // namespace

void decode(const lab::Options& options) { Decode{options}.run(); }
