#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "base/numbers.h"
#include "engine/queue_pair.h"

namespace verbena::engine {

/// The queue pairs of one slot, by number. Finding one costs two loads however many there are.
class QpTable {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] QueuePair* find(Qpn qpn) const {
    const Page* page = pages_[page_of(qpn)].get();
    if (page == nullptr) return nullptr;
    QueuePair* qp = (*page)[place_of(qpn)].get();
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;  // it may be another slot's number
  }
  /// Its number is free.
  QueuePair& insert(std::unique_ptr<QueuePair> qp) {
    auto& page = pages_[page_of(qp->qpn)];
    if (page == nullptr) page = std::make_unique<Page>();
    ++size_;
    auto& place = (*page)[place_of(qp->qpn)];
    place = std::move(qp);
    return *place;
  }
  void erase(Qpn qpn) {
    (*pages_[page_of(qpn)])[place_of(qpn)].reset();
    --size_;
  }
  template <typename F>
  void for_each(F&& f) const {
    for (const auto& page : pages_) {
      if (page == nullptr) continue;
      for (const auto& qp : *page) {
        if (qp != nullptr) f(*qp);
      }
    }
  }

 private:
  static constexpr std::size_t kPageSize = 256;
  static constexpr std::size_t kPages = (std::size_t{1} << Qpn::kIndexBits) / kPageSize;
  using Page = std::array<std::unique_ptr<QueuePair>, kPageSize>;

  static std::size_t page_of(Qpn qpn) { return qpn.value() / kPageSize % kPages; }
  static std::size_t place_of(Qpn qpn) { return qpn.value() % kPageSize; }

  std::array<std::unique_ptr<Page>, kPages> pages_;
  std::size_t size_ = 0;
};

}  // namespace verbena::engine
