#pragma once

// Two ends of a link in one process: each has its segment and its bell, as two processes would.

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include "system/fd.h"
#include "wire/shm/link.h"
#include "wire/shm/segment.h"

namespace verbena::test {

/// A process of a pair. Its calls are those of a wire that has this link alone.
struct LinkEnd {
  LinkEnd(std::uint32_t slot, std::uint64_t id) : bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
    auto made = wire::shm::Segment::create(wire::shm::Link::kRingBytes);
    if (!made || !bell) throw std::runtime_error{"no memory or descriptor for a link"};
    descriptor = std::move(made->descriptor);
    segment_ = &made->segment.page();
    ring_ = made->segment.ring().data();
    link = std::make_unique<wire::shm::Link>(slot, id, std::move(made->segment));
  }

  /// The other process has offered its segment and its bell.
  void know(const LinkEnd& other) {
    auto mapped = wire::shm::Segment::map(other.descriptor);
    Fd its_bell{::fcntl(other.bell.get(), F_DUPFD_CLOEXEC, 0)};
    if (!mapped || !its_bell) throw std::runtime_error{"the other end can't be mapped"};
    link->complete(other.link->id(), std::move(mapped).value(), std::move(its_bell));
  }

  void flush() {
    std::array links{link.get()};
    wire::shm::flush(links);
  }
  [[nodiscard]] bool may_sleep() {
    std::array links{link.get()};
    return wire::shm::may_sleep(links);
  }
  void take_all() {
    while (link->next()) {
    }
    link->release();
  }
  /// How often this end's bell was rung.
  [[nodiscard]] std::uint64_t rings() {
    std::uint64_t more = 0;
    if (::read(bell.get(), &more, sizeof more) == sizeof more) rings_ += more;
    return rings_;
  }

  /// This end's page and ring, for one that does what no Link does.
  [[nodiscard]] wire::shm::Page& page() { return *segment_; }
  /// Places a record behind those that it placed before, or at `at`.
  void put(const wire::shm::RecordHeader& header, std::size_t at) {
    std::memcpy(ring_ + at, &header, sizeof header);
  }
  void put(const wire::shm::RecordHeader& header) {
    put(header, put_at_);
    put_at_ += header.size;
  }
  [[nodiscard]] std::uint8_t* ring() { return ring_; }

  Fd bell;
  Fd descriptor;
  std::unique_ptr<wire::shm::Link> link;

 private:
  wire::shm::Page* segment_ = nullptr;
  std::uint8_t* ring_ = nullptr;
  std::size_t put_at_ = 0;
  std::uint64_t rings_ = 0;
};

struct LinkPair {
  enum class Complete : bool { no, yes };
  explicit LinkPair(Complete complete = Complete::yes) {
    if (complete == Complete::no) return;
    a.know(b);
    b.know(a);
    // Each rings for what it may have published before.
    a.flush();
    b.flush();
  }
  LinkEnd a{1, 11};
  LinkEnd b{2, 22};
};

}  // namespace verbena::test
