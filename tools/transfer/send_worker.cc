#include "tools/transfer/send_worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "tools/transfer/control_channel.h"
#include "tools/transfer/names.h"

namespace verbena::transfer {
namespace {

constexpr int kMostTries = 3;                // of a chunk that arrives damaged
constexpr std::uint64_t kWriteId = 1 << 16;  // receives have smaller ids
constexpr std::chrono::milliseconds kLook{200};

}  // namespace

void Limit::wait_for(std::size_t bytes, JobQueue& queue) {
  if (rate_ == 0) return;
  std::chrono::steady_clock::time_point when;
  {
    const std::lock_guard guard{lock_};
    const auto cost =
        std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(rate_));
    when = std::max(next_, std::chrono::steady_clock::now());
    next_ = when + std::chrono::duration_cast<std::chrono::steady_clock::duration>(cost);
  }
  queue.sleep_until(when);
}

rdma::ConnectionOptions SendWorker::options(rdma::ConnectionOptions base, const Slots& slots) {
  base.send_depth = base.recv_depth = slots.count;
  base.prepare = [count = slots.count](rdma::Connection& connection) {
    for (std::uint64_t slot = 0; slot < count; ++slot) {
      connection.post(rdma::Recv{}.id(slot)).check();
    }
  };
  return base;
}

SendWorker::SendWorker(rdma::Connection connection, const SlotMemory& remote, const Slots& slots,
                       SendShared& shared)
    : shared_{shared},
      layout_{slots},
      remote_{remote},
      memory_{connection.buffer(slots.size())},
      connection_{std::move(connection)},
      slots_(slots.count) {
  if (remote_.length < layout_.size()) {
    throw Broken{fmt::format("the receiver granted {} bytes for slots of {}", remote_.length,
                             layout_.size())};
  }
  for (std::size_t slot = slots.count; slot-- > 0;) free_.push_back(slot);
  thread_ = std::jthread{[this] { run(); }};
}

SendWorker::~SendWorker() {
  try {
    connection_.qp().to_error();     // ends the waits
  } catch (const std::exception&) {  // it is there already
  }
}

void SendWorker::run() {
  try {
    work();
  } catch (const std::exception& problem) {
    if (!shared_.queue.closed()) shared_.broken.push(problem.what());
  }
}

void SendWorker::work() {
  while (!shared_.queue.closed()) {
    while (!free_.empty()) {
      const bool idle = free_.size() == slots_.size();
      auto job = shared_.queue.take(idle);
      if (!job) break;
      const std::size_t slot = free_.back();
      free_.pop_back();
      slots_[slot] = Slot{.job = std::move(*job), .busy = true};
      fill(slot);
    }
    if (free_.size() == slots_.size()) continue;
    if (const auto done = connection_.wait(rdma::Deadline{kLook})) {
      take(*done);
    } else if (!connection_.connected()) {
      throw Broken{"the peer hung up"};
    }
  }
}

void SendWorker::fill(std::size_t slot) {
  if (prepare(slot)) {
    post(slot);
  } else {
    release(slot);
  }
}

bool SendWorker::prepare(std::size_t slot) {
  const Job& job = slots_[slot].job;
  OutgoingFile& file = *job.file;
  if (file.cancelled || !read_chunk(job, slot)) return false;
  const std::uint32_t length = file.chunks.length(job.chunk);
  const Hash hash = hash_of(memory_.bytes().subspan(layout_.data_at(slot), length));
  file.leaves[job.chunk] = hash;
  const bool there = !file.have.empty() && file.have[job.chunk] == hash;
  if (there) {
    shared_.tally.bytes_kept += length;
    file.kept += length;
  }
  if (!there && file.compare) file.differs = file.cancelled = true;
  if (there || file.compare) return false;
  const auto header = encode_fixed(
      ChunkHeader{.id = file.entry.id, .chunk = job.chunk, .length = length, .hash = hash});
  std::ranges::copy(header, memory_.data() + layout_.header_at(slot));
  shared_.limit.wait_for(length, shared_.queue);
  return true;
}

bool SendWorker::read_chunk(const Job& job, std::size_t slot) {
  OutgoingFile& file = *job.file;
  std::span<std::byte> room =
      memory_.bytes().subspan(layout_.data_at(slot), file.chunks.length(job.chunk));
  std::uint64_t at = file.chunks.offset(job.chunk);
  while (!room.empty()) {
    const ssize_t count = pread(file.fd.get(), room.data(), room.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      file.fail(count < 0 ? std::generic_category().message(errno)
                          : "it became shorter while it was sent; run the command again");
      return false;
    }
    room = room.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
  return true;
}

void SendWorker::post(std::size_t slot) {
  const std::size_t length =
      ChunkHeader::kSize + slots_[slot].job.file->chunks.length(slots_[slot].job.chunk);
  const std::size_t offset = layout_.header_at(slot);
  slots_[slot].written = slots_[slot].answered = false;
  ++slots_[slot].tries;
  const rdma::RemoteBuffer to{
      .addr = remote_.addr + offset, .length = length, .rkey = remote_.rkey};
  connection_
      .post(rdma::Write{memory_.slice(offset, length), to}
                .imm(static_cast<std::uint32_t>(slot))
                .id(kWriteId + slot)
                .signaled())
      .check();
  shared_.tally.bytes_sent += length - ChunkHeader::kSize;
  if (slots_[slot].tries > 1) shared_.tally.bytes_resent += length - ChunkHeader::kSize;
}

void SendWorker::take(const rdma::Completion& done) {
  if (!done.ok()) {
    connection_.check_peer();
    throw Broken{connection_.connected() ? fmt::format("the peer is dead or out of reach ({})",
                                                       rdma::explain(done.status).name)
                                         : "the peer hung up"};
  }
  std::size_t slot = 0;
  if (done.is_receive()) {
    connection_.post(rdma::Recv{}.id(done.id())).check();
    slot = done.imm() & 0xffff;
    if (!done.has_imm() || slot >= slots_.size() || !slots_[slot].busy || slots_[slot].answered) {
      throw Malformed{"the receiver answered for a slot that holds nothing"};
    }
    slots_[slot].answered = true;
    slots_[slot].answer = static_cast<Stored>(done.imm() >> 16);
  } else {
    slot = static_cast<std::size_t>(done.id() - kWriteId);
    slots_[slot].written = true;
  }
  if (slots_[slot].written && slots_[slot].answered) conclude(slot);
}

void SendWorker::conclude(std::size_t slot) {
  if (slots_[slot].answer == Stored::wrong_hash) {
    if (slots_[slot].tries < kMostTries) return fill(slot);
    slots_[slot].job.file->fail(fmt::format(
        "a chunk arrived damaged {} times; is the memory of a machine faulty?", kMostTries));
  }
  release(slot);
}

void SendWorker::release(std::size_t slot) {
  auto file = std::move(slots_[slot].job.file);
  slots_[slot].busy = false;
  free_.push_back(slot);
  if (--file->unsettled == 0) shared_.settled.push(std::move(file));
}

}  // namespace verbena::transfer
