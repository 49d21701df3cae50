// Requests for a send queue, as values:
//
//   qp.post(Write{buffer, remote}.id(7).signaled()).check();
//
// Built on the stack as the ibv_send_wr that the verb takes, so they cost what C costs.
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma++/access.h"
#include "rdma++/own_slices.h"

namespace rdma {

class AddressHandle;
class MemoryRegion;
class MemoryWindow;

/// Any request for a send queue; a vector of these can be posted as one chain. Copies are
/// independent of their origin, except for memory and lists of slices, which nobody owns here.
class SendRequest {
 public:
  SendRequest(const SendRequest& other) noexcept : wr_{other.wr_} {
    slices_.copy(wr_, other.slices_);
  }
  SendRequest& operator=(const SendRequest& other) noexcept {
    if (this != &other) {
      wr_ = other.wr_;
      slices_.copy(wr_, other.slices_);
    }
    return *this;
  }

  [[nodiscard]] std::uint64_t id() const noexcept { return wr_.wr_id; }
  [[nodiscard]] bool is_signaled() const noexcept {
    return (wr_.send_flags & IBV_SEND_SIGNALED) != 0;
  }
  /// The verbs take it as non-const and don't change it.
  [[nodiscard]] ibv_send_wr* raw() const noexcept { return &wr_; }

  void set_id(std::uint64_t id) noexcept { wr_.wr_id = id; }
  void set_signaled() noexcept { wr_.send_flags |= IBV_SEND_SIGNALED; }
  void set_next(const SendRequest* next) noexcept {
    wr_.next = next != nullptr ? next->raw() : nullptr;
  }

 protected:
  explicit SendRequest(ibv_wr_opcode opcode) noexcept : wr_{} { wr_.opcode = opcode; }

  template <class Slices>
  void set_slices(const Slices& slices) noexcept {
    slices_.set(wr_, slices);
  }

  mutable ibv_send_wr wr_;

 private:
  detail::OwnSlices slices_;
};

/// What every request can be told. Each returns the request, so calls chain.
template <class Self>
class Fluent : public SendRequest {
 public:
  using SendRequest::id;

  /// Comes back as Completion::id().
  Self& id(std::uint64_t value) noexcept {
    wr_.wr_id = value;
    return self();
  }
  /// Makes a completion. Without: only failures do, and the queue's room is given back by the next
  /// signaled request.
  Self& signaled() noexcept { return flag(IBV_SEND_SIGNALED); }
  /// Starts after the READs and atomics before it on this queue pair.
  Self& fence() noexcept { return flag(IBV_SEND_FENCE); }

 protected:
  using SendRequest::SendRequest;

  Self& flag(unsigned bit) noexcept {
    wr_.send_flags |= bit;
    return self();
  }
  Self& self() noexcept { return static_cast<Self&>(*this); }
};

/// Requests that carry data to the peer: SEND and WRITE.
template <class Self>
class Carrying : public Fluent<Self> {
 public:
  /// Copies the data while it is posted: no key needed, the memory is free at once. At most
  /// max_inline_data of the queue pair.
  Self& inline_data() noexcept { return this->flag(IBV_SEND_INLINE); }
  /// The same with these bytes, registered or not.
  Self& inline_data(std::span<const std::byte> bytes) noexcept {
    this->set_slices(Slice::unregistered(bytes));
    return inline_data();
  }
  /// Wakes a peer that armed its queue for solicited completions only.
  Self& solicited() noexcept { return this->flag(IBV_SEND_SOLICITED); }
  /// XRC: which shared receive queue at the peer.
  Self& xrc_srq(std::uint32_t number) noexcept {
    this->wr_.qp_type.xrc.remote_srqn = number;
    return this->self();
  }

 protected:
  using Fluent<Self>::Fluent;

  Self& immediate(std::uint32_t value, ibv_wr_opcode opcode) noexcept {
    this->wr_.opcode = opcode;
    this->wr_.imm_data = htonl(value);
    return this->self();
  }
};

/// To the next receive that the peer posted.
class Send : public Carrying<Send> {
 public:
  /// An empty message.
  Send() noexcept : Carrying{IBV_WR_SEND} {}
  Send(const Slice& data) noexcept : Carrying{IBV_WR_SEND} { set_slices(data); }
  /// Gathered from several pieces.
  template <std::size_t N>
  explicit Send(const Slice (&pieces)[N]) noexcept : Carrying{IBV_WR_SEND} {
    set_slices(pieces);
  }
  explicit Send(std::span<const Slice> pieces) noexcept : Carrying{IBV_WR_SEND} {
    set_slices(pieces);
  }

  /// 32 bits in the peer's completion, in host order on both sides.
  Send& imm(std::uint32_t value) noexcept { return immediate(value, IBV_WR_SEND_WITH_IMM); }
  /// Takes this rkey of the peer's away before its receive completes.
  Send& invalidate(std::uint32_t rkey) noexcept {
    wr_.opcode = IBV_WR_SEND_WITH_INV;
    wr_.invalidate_rkey = rkey;
    return *this;
  }
  /// UD: to whom.
  Send& to(const AddressHandle& address, std::uint32_t qpn, std::uint32_t qkey) noexcept;
};

/// Into the peer's memory; the peer's program takes no part.
class Write : public Carrying<Write> {
 public:
  Write(const Slice& data, const RemoteBuffer& to) noexcept : Write{to} { set_slices(data); }
  template <std::size_t N>
  Write(const Slice (&pieces)[N], const RemoteBuffer& to) noexcept : Write{to} {
    set_slices(pieces);
  }
  Write(std::span<const Slice> pieces, const RemoteBuffer& to) noexcept : Write{to} {
    set_slices(pieces);
  }
  /// Of no bytes: with imm(), a notification.
  explicit Write(const RemoteBuffer& to) noexcept : Carrying{IBV_WR_RDMA_WRITE} {
    wr_.wr.rdma = {to.addr, to.rkey};
  }

  /// Consumes a receive of the peer's and shows there as these 32 bits, in host order.
  Write& imm(std::uint32_t value) noexcept { return immediate(value, IBV_WR_RDMA_WRITE_WITH_IMM); }
};

/// From the peer's memory.
class Read : public Fluent<Read> {
 public:
  Read(const Slice& into, const RemoteBuffer& from) noexcept : Read{from} { set_slices(into); }
  template <std::size_t N>
  Read(const Slice (&pieces)[N], const RemoteBuffer& from) noexcept : Read{from} {
    set_slices(pieces);
  }
  Read(std::span<const Slice> pieces, const RemoteBuffer& from) noexcept : Read{from} {
    set_slices(pieces);
  }

 private:
  explicit Read(const RemoteBuffer& from) noexcept : Fluent{IBV_WR_RDMA_READ} {
    wr_.wr.rdma = {from.addr, from.rkey};
  }
};

/// Adds to the 8 aligned bytes at `at`; what was there before lands in `before` (8 bytes).
class FetchAdd : public Fluent<FetchAdd> {
 public:
  FetchAdd(const Slice& before, const RemoteBuffer& at, std::uint64_t add) noexcept
      : Fluent{IBV_WR_ATOMIC_FETCH_AND_ADD} {
    set_slices(before);
    wr_.wr.atomic = {at.addr, add, 0, at.rkey};
  }
};

/// Writes `desired` where `expected` was found; what was there lands in `before` either way.
class CompareSwap : public Fluent<CompareSwap> {
 public:
  CompareSwap(const Slice& before, const RemoteBuffer& at, std::uint64_t expected,
              std::uint64_t desired) noexcept
      : Fluent{IBV_WR_ATOMIC_CMP_AND_SWP} {
    set_slices(before);
    wr_.wr.atomic = {at.addr, expected, desired, at.rkey};
  }
};

/// Takes away a key of our own: of a window of type 2.
class LocalInvalidate : public Fluent<LocalInvalidate> {
 public:
  explicit LocalInvalidate(std::uint32_t rkey) noexcept : Fluent{IBV_WR_LOCAL_INV} {
    wr_.invalidate_rkey = rkey;
  }
};

/// Gives a window of type 2 a range, rights and a key; see MemoryWindow.
class BindWindow : public Fluent<BindWindow> {
 public:
  BindWindow(const MemoryWindow& window, std::uint32_t rkey, const MemoryRegion& region,
             std::uint64_t offset, std::uint64_t length, Access access) noexcept;
};

}  // namespace rdma
