// The data path twice: in C, as programs write it, and with rdma++. measure.py counts the
// instructions of each function (not of the driver that it calls) and compares the pairs.
//
// The device's own functions are replaced by ones that do nothing, so no peer is needed and every
// run executes the same instructions.
#include <rdma++/rdma.h>

#include <cstdio>

#if RDMAPP_CHECKS
#error "measured is what release builds run"
#endif

namespace {

constexpr int kCalls = 1000;
constexpr int kBatch = 16;

struct Plain {
  ibv_qp* qp;
  ibv_cq* cq;
  ibv_sge data;
  std::uint64_t remote_addr;
  std::uint32_t rkey;
};
struct Wrapped {
  rdma::QueuePair qp;
  rdma::CompletionQueue cq;
  rdma::Slice data;
  rdma::RemoteBuffer remote;
};

int nothing_sent(ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return 0; }
int nothing_received(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 0; }
int all_completed(ibv_cq*, int room, ibv_wc* wc) {
  for (int i = 0; i < room; ++i) {
    wc[i].wr_id = static_cast<std::uint64_t>(i);
    wc[i].status = IBV_WC_SUCCESS;
  }
  return room;
}

}  // namespace

#ifdef __clang__  // which only reads it, for lint
#define MEASURED extern "C" [[gnu::noinline]]
#else
#define MEASURED extern "C" [[gnu::noinline, gnu::noclone]]
#endif

MEASURED int c_write(Plain* p, std::uint64_t id) {
  ibv_sge sge = p->data;
  ibv_send_wr wr{};
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = p->remote_addr;
  wr.wr.rdma.rkey = p->rkey;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(p->qp, &wr, &bad);
}
MEASURED int cpp_write(Wrapped* w, std::uint64_t id) {
  return w->qp.post(rdma::Write{w->data, w->remote}.id(id).signaled()).code();
}

MEASURED int c_send(Plain* p, std::uint64_t id) {
  ibv_sge sge = p->data;
  ibv_send_wr wr{};
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SOLICITED;
  wr.imm_data = htonl(7);
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(p->qp, &wr, &bad);
}
MEASURED int cpp_send(Wrapped* w, std::uint64_t id) {
  return w->qp.post(rdma::Send{w->data}.id(id).imm(7).inline_data().solicited()).code();
}

MEASURED int c_chain(Plain* p, std::uint64_t id) {
  ibv_sge sge = p->data;
  ibv_send_wr write{}, send{};
  write.wr_id = id;
  write.next = &send;
  write.sg_list = &sge;
  write.num_sge = 1;
  write.opcode = IBV_WR_RDMA_WRITE;
  write.wr.rdma.remote_addr = p->remote_addr;
  write.wr.rdma.rkey = p->rkey;
  send.wr_id = id;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(p->qp, &write, &bad);
}
MEASURED int cpp_chain(Wrapped* w, std::uint64_t id) {
  return w->qp.post(rdma::Write{w->data, w->remote}.id(id), rdma::Send{}.id(id).signaled()).code();
}

MEASURED int c_recv(Plain* p, std::uint64_t id) {
  ibv_sge sge = p->data;
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(p->qp, &wr, &bad);
}
MEASURED int cpp_recv(Wrapped* w, std::uint64_t id) {
  return w->qp.post(rdma::Recv{w->data}.id(id)).code();
}

MEASURED std::uint64_t c_poll_one(Plain* p) {
  ibv_wc wc;
  if (ibv_poll_cq(p->cq, 1, &wc) <= 0 || wc.status != IBV_WC_SUCCESS) return 0;
  return wc.wr_id;
}
MEASURED std::uint64_t cpp_poll_one(Wrapped* w) {
  rdma::Completion done;
  if (!w->cq.poll(done) || !done.ok()) return 0;
  return done.id();
}

MEASURED std::uint64_t c_poll_batch(Plain* p) {
  ibv_wc wc[kBatch];
  std::uint64_t sum = 0;
  const int count = ibv_poll_cq(p->cq, kBatch, wc);
  for (int i = 0; i < count; ++i) {
    if (wc[i].status == IBV_WC_SUCCESS) sum += wc[i].wr_id;
  }
  return sum;
}
MEASURED std::uint64_t cpp_poll_batch(Wrapped* w) {
  rdma::Completion room[kBatch];
  std::uint64_t sum = 0;
  for (const rdma::Completion& done : w->cq.poll(std::span{room})) {
    if (done.ok()) sum += done.id();
  }
  return sum;
}

int main() {
  const rdma::Context context = rdma::Context{rdma::default_device()};
  const rdma::ProtectionDomain pd{context};
  rdma::CompletionQueue cq{context, 64};
  const rdma::Buffer buffer{pd, 4096, rdma::Access::remote_write};
  rdma::QueuePair qp = rdma::QueuePair::rc(pd).cq(cq).create();

  const ibv_context_ops before = context.raw()->ops;
  context.raw()->ops.post_send = nothing_sent;
  context.raw()->ops.post_recv = nothing_received;
  context.raw()->ops.poll_cq = all_completed;
  Plain plain{qp.raw(), cq.raw(), buffer.slice(), buffer.remote().addr, buffer.rkey()};
  Wrapped wrapped{std::move(qp), std::move(cq), buffer.slice(), buffer.remote()};

  std::uint64_t seen = 0;
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    seen += static_cast<std::uint64_t>(
        c_write(&plain, i) + cpp_write(&wrapped, i) + c_send(&plain, i) + cpp_send(&wrapped, i) +
        c_chain(&plain, i) + cpp_chain(&wrapped, i) + c_recv(&plain, i) + cpp_recv(&wrapped, i));
    seen += c_poll_one(&plain) + cpp_poll_one(&wrapped);
    seen += c_poll_batch(&plain) - cpp_poll_batch(&wrapped);
  }
  context.raw()->ops = before;
  std::printf("calls %d\n", kCalls);
  return seen == 0 ? 0 : 1;
}
