#pragma once

// A queue pair of a rdma_cm id with a few slots of memory, for messages of up to kSlotBytes. Both
// ends of the doctor's conversation have one.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace verbena::doctor {

class MessagePair {
 public:
  static constexpr std::uint32_t kSlotBytes = 16'384;  // four packets of the largest MTU
  static constexpr std::uint32_t kSlots = 4;

  /// `id` has a device, and outlives this. std::system_error: a call failed.
  explicit MessagePair(rdma_cm_id* id);
  ~MessagePair();
  MessagePair(const MessagePair&) = delete;
  MessagePair& operator=(const MessagePair&) = delete;

  void post_receive(std::uint32_t slot);
  void post_send(std::uint32_t slot, std::uint32_t bytes);
  [[nodiscard]] std::span<std::byte> slot(std::uint32_t number);

  /// Readable when completions() has something new.
  [[nodiscard]] int fd() const { return channel_->fd; }
  /// All that are there. Takes the event, if there is one.
  [[nodiscard]] std::vector<ibv_wc> completions();

 private:
  template <typename Object, int (*destroy)(Object*)>
  struct Destroy {
    void operator()(Object* object) const { destroy(object); }
  };
  template <typename Object, int (*destroy)(Object*)>
  using Owned = std::unique_ptr<Object, Destroy<Object, destroy>>;

  [[nodiscard]] ibv_sge entry_of(std::uint32_t slot, std::uint32_t bytes) const;

  rdma_cm_id* id_;
  std::vector<std::byte> memory_;
  Owned<ibv_pd, ibv_dealloc_pd> pd_;
  Owned<ibv_comp_channel, ibv_destroy_comp_channel> channel_;
  Owned<ibv_cq, ibv_destroy_cq> cq_;
  Owned<ibv_mr, ibv_dereg_mr> mr_;
};

/// What both ends say when they connect.
[[nodiscard]] rdma_conn_param connection_parameters();

}  // namespace verbena::doctor
