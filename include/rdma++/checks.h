// What debug builds watch: memory that two requests in flight use at once, and memory that goes
// away under one. A finding goes to report(); nothing else changes.
//
// On when NDEBUG is not defined, or as RDMAPP_CHECKS (0 or 1) says. All files of a program must
// agree. Off, no instruction of it remains.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "rdma++/error.h"

#ifndef RDMAPP_CHECKS
#ifdef NDEBUG
#define RDMAPP_CHECKS 0
#else
#define RDMAPP_CHECKS 1
#endif
#endif

namespace rdma {

inline constexpr bool kChecks = RDMAPP_CHECKS != 0;

namespace checks {

/// Memory of one request; `written`: the device writes to it.
struct Piece {
  std::uint64_t addr;
  std::uint64_t length;
  bool written;

  [[nodiscard]] bool meets(std::uint64_t other, std::uint64_t size) const {
    return addr < other + size && other < addr + length;
  }
};

struct Request {
  std::uint64_t id;
  bool signaled;
  bool fenced;
  std::vector<Piece> pieces;
};

/// The requests of one queue that have not completed, oldest first.
using Queue = std::deque<Request>;

/// All queues of the process. A send queue goes by its ibv_qp, a receive queue by its ibv_srq or
/// by its queue pair's receive side.
class InFlight {
 public:
  static InFlight& instance() {
    static InFlight* const all = new InFlight;  // never destroyed: static objects may be, later
    return *all;
  }

  void opened(ibv_qp* qp, bool signals_all) {
    const std::lock_guard lock{mutex_};
    pairs_[{qp->context, qp->qp_num}] = {qp, signals_all};
  }

  /// The device uses none of its requests any more.
  void closed(const ibv_qp* qp) {
    const std::lock_guard lock{mutex_};
    pairs_.erase({qp->context, qp->qp_num});
    sends_.erase(qp);
    receives_.erase(qp);
  }
  void emptied(const ibv_qp* qp) {
    const std::lock_guard lock{mutex_};
    sends_.erase(qp);
    receives_.erase(qp);
  }
  void closed(const ibv_srq* srq) {
    const std::lock_guard lock{mutex_};
    receives_.erase(srq);
  }

  void posting(const ibv_qp* qp, const ibv_send_wr* chain) {
    Findings findings;
    const std::lock_guard lock{mutex_};
    const auto pair = pairs_.find({qp->context, qp->qp_num});
    const bool all = pair != pairs_.end() && pair->second.signals_all;
    for (; chain != nullptr; chain = chain->next) {
      Request request{chain->wr_id,
                      all || (chain->send_flags & IBV_SEND_SIGNALED) != 0,
                      (chain->send_flags & IBV_SEND_FENCE) != 0,
                      {}};
      const bool written = chain->opcode == IBV_WR_RDMA_READ ||
                           chain->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                           chain->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
      if ((chain->send_flags & IBV_SEND_INLINE) == 0) {  // inline data is copied while posting
        for (int i = 0; i < chain->num_sge; ++i) add(request, chain->sg_list[i], written);
      }
      check(request, qp, findings);
      sends_[qp].push_back(std::move(request));
    }
  }
  void posting(const ibv_recv_wr* chain, const void* queue) {
    Findings findings;
    const std::lock_guard lock{mutex_};
    for (; chain != nullptr; chain = chain->next) {
      Request request{chain->wr_id, true, false, {}};
      for (int i = 0; i < chain->num_sge; ++i) add(request, chain->sg_list[i], true);
      check(request, nullptr, findings);
      receives_[queue].push_back(std::move(request));
    }
  }
  /// The verb refused everything from `bad` on.
  void refused(const ibv_qp* qp, const ibv_send_wr* bad) {
    const std::lock_guard lock{mutex_};
    for (; bad != nullptr; bad = bad->next) sends_[qp].pop_back();
  }
  void refused(const void* queue, const ibv_recv_wr* bad) {
    const std::lock_guard lock{mutex_};
    for (; bad != nullptr; bad = bad->next) receives_[queue].pop_back();
  }

  void completed(ibv_context* context, const ibv_wc& wc) {
    const std::lock_guard lock{mutex_};
    const auto pair = pairs_.find({context, wc.qp_num});
    if (pair == pairs_.end()) return;
    const ibv_qp* const qp = pair->second.raw;
    const void* const receiver = qp->srq != nullptr ? static_cast<const void*>(qp->srq) : qp;
    if (wc.status == IBV_WC_SUCCESS) {
      if ((wc.opcode & IBV_WC_RECV) != 0) {
        erase(receives_[receiver], wc.wr_id);
      } else {
        sent(sends_[qp]);
      }
    } else {
      // Its opcode isn't to be trusted. Where requests of both queues, or several, have the id of
      // the one that failed, all that may be meant are forgotten: rather miss a fault than find one
      // in a good program.
      failed(sends_[qp], wc.wr_id);
      erase(receives_[receiver], wc.wr_id);
    }
  }

  void released(std::uint64_t addr, std::uint64_t size) {
    Findings findings;
    const std::lock_guard lock{mutex_};
    for (const auto* queues : {&sends_, &receives_}) {
      for (const auto& [owner, queue] : *queues) {
        for (const Request& request : queue) {
          for (const Piece& piece : request.pieces) {
            if (!piece.meets(addr, size)) continue;
            findings.add(concat("memory ", range(addr, size), " is released while request ",
                                request.id, " on ", range(piece.addr, piece.length),
                                " is in flight; wait for its completion first"));
            return;
          }
        }
      }
    }
  }

 private:
  struct Pair {
    ibv_qp* raw;
    bool signals_all;
  };
  using Queues = std::map<const void*, Queue>;

  /// Reported when the lock is free again: whoever is told may use this library. Made before it.
  class Findings {
   public:
    Findings() = default;
    Findings(const Findings&) = delete;
    Findings& operator=(const Findings&) = delete;
    ~Findings() {
      for (const std::string& line : lines_) report(line);
    }
    void add(std::string line) { lines_.push_back(std::move(line)); }

   private:
    std::vector<std::string> lines_;
  };

  static std::string range(std::uint64_t addr, std::uint64_t size) {
    return concat('[', hex(addr), ", ", hex(addr + size), ')');
  }
  static void add(Request& request, const ibv_sge& sge, bool written) {
    if (sge.length != 0) request.pieces.push_back({sge.addr, sge.length, written});
  }

  /// A completion says that every older request of the send queue is done, too.
  static void sent(Queue& queue) {
    while (!queue.empty()) {
      const bool last = queue.front().signaled;
      queue.pop_front();
      if (last) return;
    }
  }
  static void erase(Queue& queue, std::uint64_t id) {
    const auto found = std::find_if(queue.begin(), queue.end(),
                                    [&](const Request& request) { return request.id == id; });
    if (found != queue.end()) queue.erase(found);
  }
  /// And with it every older one; of several with that id, it may be the last.
  static void failed(Queue& queue, std::uint64_t id) {
    const auto last = std::find_if(queue.rbegin(), queue.rend(),
                                   [&](const Request& request) { return request.id == id; });
    queue.erase(queue.begin(), last.base());
  }

  /// A fenced request waits for the READs and atomics of its own queue: those may overlap.
  void check(const Request& request, const void* sender, Findings& findings) const {
    for (const auto* queues : {&sends_, &receives_}) {
      for (const auto& [owner, queue] : *queues) {
        if (request.fenced && queues == &sends_ && owner == sender) continue;
        for (const Request& other : queue) check(request, other, findings);
      }
    }
  }
  static void check(const Request& request, const Request& other, Findings& findings) {
    for (const Piece& mine : request.pieces) {
      for (const Piece& theirs : other.pieces) {
        if (!mine.meets(theirs.addr, theirs.length) || !(mine.written || theirs.written)) continue;
        findings.add(concat(
            "request ", request.id, mine.written ? " lets the device write " : " sends ",
            range(mine.addr, mine.length), " while request ", other.id,
            theirs.written ? " in flight writes " : " in flight sends ",
            range(theirs.addr, theirs.length), "; wait for its completion, or use other memory"));
        return;
      }
    }
  }

  std::mutex mutex_;
  std::map<std::pair<const ibv_context*, std::uint32_t>, Pair> pairs_;
  Queues sends_;
  Queues receives_;
};

inline void released(std::uint64_t addr, std::uint64_t size) noexcept {
  InFlight::instance().released(addr, size);
}

}  // namespace checks
}  // namespace rdma
