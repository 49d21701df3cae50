#include "tools/transfer/receive_worker.h"

#include <fmt/format.h>

#include "tools/transfer/control_channel.h"

namespace verbena::transfer {
namespace {

constexpr std::uint64_t kAnswerId = 1 << 16;  // receives have smaller ids
constexpr std::chrono::milliseconds kLook{200};

}  // namespace

rdma::Connection ReceiveWorker::accept(rdma::ConnectionRequest& request,
                                       rdma::ConnectionOptions options, const Slots& slots,
                                       const rdma::ProtectionDomain& pd,
                                       const rdma::Buffer& memory) {
  options.pd = &pd;
  options.access = rdma::Access::remote_write;
  options.recv_depth = slots.count;
  options.send_depth = 2 * slots.count;
  const rdma::RemoteBuffer remote = memory.remote();
  options.private_data =
      encode_fixed(SlotMemory{.addr = remote.addr, .length = remote.length, .rkey = remote.rkey});
  options.prepare = [count = slots.count](rdma::Connection& connection) {
    for (std::uint64_t slot = 0; slot < count; ++slot) {
      connection.post(rdma::Recv{}.id(slot)).check();
    }
  };
  return request.accept(options);
}

ReceiveWorker::ReceiveWorker(rdma::ConnectionRequest& request, rdma::ConnectionOptions options,
                             const Slots& slots, ChunkSink sink, Tally& tally)
    : sink_{std::move(sink)},
      tally_{tally},
      layout_{slots},
      pd_{request.context()},
      memory_{pd_, slots.size(), rdma::Access::remote_write},
      connection_{accept(request, std::move(options), slots, pd_, memory_)},
      thread_{[this](const std::stop_token& stop) { run(stop); }} {}

ReceiveWorker::~ReceiveWorker() {
  thread_.request_stop();
  try {
    connection_.qp().to_error();     // ends the waits
  } catch (const std::exception&) {  // it is there already
  }
}

void ReceiveWorker::run(const std::stop_token& stop) {
  try {
    work(stop);
  } catch (const std::exception& problem) {
    if (!stop.stop_requested()) sink_.broken(problem.what());
  }
}

void ReceiveWorker::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (const auto done = connection_.wait(rdma::Deadline{kLook})) {
      take(*done);
    } else if (!connection_.connected()) {
      return;  // the control connection tells why
    }
  }
}

void ReceiveWorker::take(const rdma::Completion& done) {
  if (!done.ok()) {
    connection_.check_peer();
    if (!connection_.connected()) throw Broken{"the peer hung up"};
    throw Broken{
        fmt::format("the peer is dead or out of reach ({})", rdma::explain(done.status).name)};
  }
  if (!done.is_receive()) return;  // an answer arrived
  if (!done.has_imm() || done.imm() >= layout_.count) {
    throw Malformed{"the sender wrote into a slot that doesn't exist"};
  }
  const std::uint32_t slot = done.imm();
  const Stored stored = store(slot);
  connection_.post(rdma::Recv{}.id(done.id())).check();
  connection_.post(rdma::Send{}.imm(answer_of(slot, stored)).id(kAnswerId + slot).signaled())
      .check();
}

Stored ReceiveWorker::store(std::uint32_t slot) {
  const auto memory = memory_.bytes();
  const auto header =
      decode_fixed<ChunkHeader>(memory.subspan(layout_.header_at(slot), ChunkHeader::kSize));
  if (header.length > layout_.chunk_size) {
    throw Malformed{fmt::format("the sender names a chunk of {} bytes, a slot has {}",
                                header.length, layout_.chunk_size)};
  }
  const auto bytes = memory.subspan(layout_.data_at(slot), header.length);
  tally_.bytes_sent += header.length;
  if (hash_of(bytes) != header.hash) {
    tally_.bytes_resent += header.length;
    return Stored::wrong_hash;
  }
  const auto file = sink_.find(header.id);
  if (file == nullptr) return Stored::dropped;
  try {
    file->store(header.chunk, bytes, header.hash);
  } catch (const std::system_error& problem) {
    sink_.failed(header.id, problem);
    return Stored::dropped;
  }
  return Stored::yes;
}

}  // namespace verbena::transfer
