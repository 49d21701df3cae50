#include "labs/common/links.h"

#include <array>

namespace lab {
namespace {

// Request ids: the peer's rank, and whether it was a receive.
constexpr std::uint64_t kReceive = std::uint64_t{1} << 32;

int completions_for(unsigned peers, std::uint32_t depth) {
  return static_cast<int>(std::max(1u, peers) * depth * 2);
}

}  // namespace

/// The device that was asked for, or else the one with the address that this rank is known by.
rdma::Context Links::open(const Options& options, const Meeting& meeting) {
  if (!options.device.empty()) return rdma::Context{rdma::Device::by_name(options.device)};
  const std::string address = meeting.address().to_string();
  try {
    return rdma::Context{rdma::device_with_address(address)};
  } catch (const rdma::Error& error) {
    if (error.code() != ENODEV) throw;
    throw Failed{fmt::format("{}; give --device, or a --root that leads over one", error.what())};
  }
}

Links::Links(const Options& options, const Meeting& meeting, bool hub_only)
    : deadline_{options.deadline},
      context_{open(options, meeting)},
      pd_{context_},
      cq_{context_, completions_for(meeting.rank().count - 1, kDepth)},
      links_(meeting.rank().count) {
  const unsigned me = meeting.rank().number;
  for (unsigned rank = 0; rank < links_.size(); ++rank) {
    if (rank == me || (hub_only && rank != 0 && me != 0)) continue;
    links_[rank] = Link{rdma::QueuePair::rc(pd_).cq(cq_).depth(kDepth, kDepth).create()};
  }
  if (options.device.empty()) speaks_from_ = context_.find_gid(meeting.address());
}

void Links::listen_to(Link& link, unsigned rank) {
  link.qp.post(rdma::Recv{}.id(kReceive | rank)).check();
}

void Links::connect(Meeting& meeting, const rdma::RemoteBuffer& memory) {
  std::vector<rdma::ConnInfo> mine(links_.size());
  for (unsigned rank = 0; rank < links_.size(); ++rank) {
    if (!links_[rank]) continue;
    mine[rank] = links_[rank]->qp.info(1, speaks_from_);
    mine[rank].offer(memory);
    links_[rank]->qp.to_init();
    for (std::uint32_t i = 0; i < kDepth; ++i) listen_to(*links_[rank], rank);
  }
  const auto theirs = meeting.exchange(mine);
  for (unsigned rank = 0; rank < links_.size(); ++rank) {
    if (!links_[rank]) continue;
    links_[rank]->memory = theirs[rank].remote();
    links_[rank]->qp.connect(theirs[rank]);
  }
  meeting.barrier();  // packets to a queue pair that isn't ready would be dropped
}

void Links::post(unsigned rank, rdma::SendRequest request) {
  Link& link = at(rank);
  while (link.in_flight == kDepth) take_completions();
  request.set_id(rank);
  request.set_signaled();
  link.qp.post(request).check();
  ++link.in_flight;
}

void Links::finish(unsigned rank) {
  while (at(rank).in_flight > 0) take_completions();
}

std::uint32_t Links::hear(unsigned rank) {
  Link& link = at(rank);
  while (link.words.empty()) take_completions();
  const std::uint32_t word = link.words.front();
  link.words.pop_front();
  return word;
}

void Links::take_completions() {
  std::array<rdma::Completion, 16> room;
  const auto done = cq_.wait(room, deadline_);
  in_time(!done.empty(), "another rank");
  for (const rdma::Completion& completion : done) {
    const auto rank = static_cast<unsigned>(completion.id() & ~kReceive);
    check(completion.ok(), "to rank {}: {}", rank, completion.message());
    Link& link = at(rank);
    if ((completion.id() & kReceive) == 0) {
      --link.in_flight;
      continue;
    }
    check(completion.has_imm(), "rank {} sent a message without immediate data", rank);
    link.words.push_back(completion.imm());
    listen_to(link, rank);
  }
}

}  // namespace lab
