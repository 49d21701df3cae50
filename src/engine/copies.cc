#include "engine/copies.h"

#include <algorithm>

namespace verbena::engine {

namespace {

/// How many of the first segments are of one kind.
std::size_t same_kind(std::span<const Segment> list) {
  std::size_t n = 1;
  while (n < list.size() && list[n].backing == list.front().backing) ++n;
  return n;
}

/// `started`: whether the copies could be started at all.
bool finish_one(memory::Dma& kind, bool started) {
  return kind.pending() ? kind.finish() && started : started;
}

}  // namespace

Copies::Copies() {
  waiting_.reserve(kMost);
  started_.reserve(kMostKinds);
}

bool Copies::gather(std::span<const Segment> from, std::span<std::uint8_t> into) {
  if (from.empty()) return true;
  if (same_kind(from) == from.size()) {
    memory::Dma& kind = *from.front().backing;
    return finish_one(kind, kind.gather(from, into));
  }
  bool done = true;
  while (done && !from.empty()) {
    const auto run = from.first(same_kind(from));
    std::size_t bytes = 0;
    for (const Segment& s : run) bytes += s.length;
    memory::Dma& kind = *run.front().backing;
    done = kind.gather(run, into.first(bytes));
    done = note_started(kind) && done;
    from = from.subspan(run.size());
    into = into.subspan(bytes);
  }
  return finish_started() && done;
}

bool Copies::gather_parts(const Segment& from, const memory::FrameParts& into) {
  return finish_one(*from.backing, from.backing->gather_parts(from.address, into));
}

bool Copies::scatter(std::span<const std::uint8_t> from, std::span<const Segment> into) {
  if (into.empty()) return true;
  if (waiting_.empty() && !owner_.may_wait && same_kind(into) == into.size()) {
    memory::Dma& kind = *into.front().backing;
    return finish_one(kind, kind.scatter(from, into));
  }
  for (const Segment& s : into) {
    const bool full = waiting_.size() == kMost || (!waiting_.empty() && kind_ != s.backing);
    if (full && !start()) {
      static_cast<void>(finish_started());
      return false;
    }
    kind_ = s.backing;
    waiting_.push_back({from.first(s.length), s.address});
    from = from.subspan(s.length);
  }
  return owner_.may_wait || finish();
}

bool Copies::start() {
  const bool done = kind_->scatter_all(waiting_);
  waiting_.clear();
  return note_started(*kind_) && done;
}

bool Copies::finish() {
  const bool done = waiting_.empty() || start();
  return finish_started() && done;
}

/// False: it had to be finished at once, and failed.
bool Copies::note_started(memory::Dma& kind) {
  if (!kind.pending() || std::find(started_.begin(), started_.end(), &kind) != started_.end()) {
    return true;
  }
  if (started_.size() == kMostKinds) return kind.finish();
  started_.push_back(&kind);
  return true;
}

bool Copies::finish_started() {
  bool done = true;
  for (memory::Dma* kind : started_) done = kind->finish() && done;
  started_.clear();
  return done;
}

}  // namespace verbena::engine
