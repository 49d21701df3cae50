#include "tools/doctor/message_pair.h"

#include <fcntl.h>

#include <cerrno>
#include <system_error>

namespace verbena::doctor {
namespace {

[[noreturn]] void call_failed(int error, const char* call) {
  throw std::system_error{error, std::generic_category(), call};
}

template <typename Object>
Object* made(Object* object, const char* call) {
  if (object == nullptr) call_failed(errno, call);
  return object;
}

}  // namespace

MessagePair::MessagePair(rdma_cm_id* id)
    : id_{id},
      memory_(std::size_t{kSlots} * kSlotBytes),
      pd_{made(ibv_alloc_pd(id->verbs), "ibv_alloc_pd")},
      channel_{made(ibv_create_comp_channel(id->verbs), "ibv_create_comp_channel")},
      cq_{made(ibv_create_cq(id->verbs, 2 * kSlots, nullptr, channel_.get(), 0), "ibv_create_cq")},
      mr_{made((ibv_reg_mr)(pd_.get(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE),
               "ibv_reg_mr")} {
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  if (const int error = ibv_req_notify_cq(cq_.get(), 0); error != 0) {
    call_failed(error, "ibv_req_notify_cq");
  }
  ibv_qp_init_attr wish{};
  wish.send_cq = wish.recv_cq = cq_.get();
  wish.cap = {.max_send_wr = kSlots,
              .max_recv_wr = kSlots,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  wish.qp_type = IBV_QPT_RC;
  wish.sq_sig_all = 1;
  if (rdma_create_qp(id_, pd_.get(), &wish) != 0) call_failed(errno, "rdma_create_qp");
}

MessagePair::~MessagePair() { rdma_destroy_qp(id_); }

ibv_sge MessagePair::entry_of(std::uint32_t slot, std::uint32_t bytes) const {
  const std::byte* const begin = memory_.data() + std::size_t{slot} * kSlotBytes;
  return {reinterpret_cast<std::uintptr_t>(begin), bytes, mr_->lkey};
}

std::span<std::byte> MessagePair::slot(std::uint32_t number) {
  return std::span{memory_}.subspan(std::size_t{number} * kSlotBytes, kSlotBytes);
}

void MessagePair::post_receive(std::uint32_t slot) {
  ibv_sge entry = entry_of(slot, kSlotBytes);
  ibv_recv_wr request{};
  request.wr_id = slot;
  request.sg_list = &entry;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(id_->qp, &request, &bad);
  if (error != 0) call_failed(error, "ibv_post_recv");
}

void MessagePair::post_send(std::uint32_t slot, std::uint32_t bytes) {
  ibv_sge entry = entry_of(slot, bytes);
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(id_->qp, &request, &bad);
  if (error != 0) call_failed(error, "ibv_post_send");
}

std::vector<ibv_wc> MessagePair::completions() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_.get(), &cq, &context) == 0) {
    ibv_ack_cq_events(cq, 1);
    if (const int error = ibv_req_notify_cq(cq, 0); error != 0) {
      call_failed(error, "ibv_req_notify_cq");
    }
  }
  std::vector<ibv_wc> found;
  for (ibv_wc completion{}; ibv_poll_cq(cq_.get(), 1, &completion) > 0;) {
    found.push_back(completion);
  }
  return found;
}

rdma_conn_param connection_parameters() {
  rdma_conn_param parameters{};
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 7;
  return parameters;
}

}  // namespace verbena::doctor
