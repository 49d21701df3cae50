#include "tools/bench/ends/rdma_end.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::bench {
namespace {

constexpr std::uint64_t kInline = 64;  // bytes that any device takes inline
constexpr std::size_t kLine = 4096;

rdma::QueuePairBuilder builder_of(const Spec& spec, const rdma::ProtectionDomain& pd) {
  if (spec.service == "UC") return rdma::QueuePair::uc(pd);
  if (spec.service == "UD") return rdma::QueuePair::ud(pd);
  return rdma::QueuePair::rc(pd);
}

void check_size(const Spec& spec, const rdma::Context& context) {
  const ibv_port_attr port = context.port();
  const std::uint64_t most =
      spec.service == "UD" ? std::uint64_t{128} << port.active_mtu : port.max_msg_sz;
  if (spec.size <= most) return;
  throw Skipped{fmt::format("{} bytes: a message over {} of {} has {} bytes at most", spec.size,
                            spec.service, context.name(), most)};
}

}  // namespace

Origin origin_of(const std::string& name, const Socket& socket) {
  const rdma::Gid here = socket.local().gid();
  try {
    rdma::Context context{name.empty() ? rdma::device_with_address(here.to_string())
                                       : rdma::Device::by_name(name)};
    const auto same = context.find_gid(here);
    const rdma::GidEntry row = same ? *same : context.best_gid(1, here);
    return {std::move(context), row};
  } catch (const rdma::Error& error) {
    throw Failed{fmt::format("{}; \"verbena devices\" lists the devices, --device chooses one",
                             error.what())};
  }
}

RdmaEnd::RdmaEnd(const Spec& spec, const std::string& device, Control& control,
                 std::uint32_t receives)
    : spec_{spec},
      control_{control},
      from_{origin_of(device, control.socket())},
      pd_{from_.context},
      receives_{receives},
      cq_{from_.context,
          static_cast<int>(spec.queue_pairs * (2 * spec.depth + receives)),
          {.channel = spec.completion == "events"}},
      grh_{spec.service == "UD" ? rdma::AddressHandle::kGrhSize : 0},
      landing_{(spec.size + kLine - 1) / kLine * kLine},
      memory_{pd_, landing_ + grh_ + spec.size,
              spec.service == "UD" ? rdma::Access::local_write
                                   : rdma::Access::remote_write | rdma::Access::remote_read},
      inline_{spec.size <= kInline && spec.operation != "read"},
      immediate_{spec.service == "UC" && spec.operation == "write" && spec.test == "bandwidth"} {
  check_size(spec, from_.context);
  if (spec.loss_percent > 0 && !rdma::is_verbena(this->device())) {
    throw Skipped{
        fmt::format("{} loses no packets on request; Verbena's devices (vb_…) do", this->device())};
  }
  for (std::uint32_t i = 0; i < spec.queue_pairs; ++i) {
    qps_.push_back(builder_of(spec, pd_)
                       .cq(cq_)
                       .depth(2 * spec.depth, std::max(receives, 1u))
                       .sge(1, 1)
                       .inline_size(inline_ ? kInline : 0)
                       .create());
    connect(qps_.back());
    for (std::uint32_t n = 0; n < receives; ++n) post_receive(i);
  }
  control.barrier();
}

void RdmaEnd::connect(rdma::QueuePair& qp) {
  const rdma::ConnInfo ours =
      rdma::ConnInfo{qp.info(1, from_.gid)}.offer(memory_.remote().slice(landing_, spec_.size));
  peers_.push_back(control_.exchange(ours));
  if (spec_.service == "UD") {
    qp.activate(kQkey);
    addresses_.emplace_back(pd_, qp.path_to(peers_.back()));
  } else {
    qp.connect(peers_.back(), rdma::Access::remote_write | rdma::Access::remote_read);
  }
}

void RdmaEnd::post_receive(std::uint32_t index) {
  qps_[index].post(rdma::Recv{memory_.slice(landing_, grh_ + spec_.size)}.id(index)).check();
}

void RdmaEnd::post(std::uint32_t index, bool signaled) {
  const rdma::QueuePair& qp = qps_[index];
  const rdma::Slice data = memory_.slice(0, spec_.size);
  const auto submit = [&](auto&& request) {
    request.id(index);
    if (signaled) request.signaled();
    if constexpr (requires { request.inline_data(); }) {
      if (inline_) request.inline_data();
    }
    qp.post(request).check();
  };
  if (spec_.operation == "read") {
    submit(rdma::Read{memory_.slice(landing_, spec_.size), peers_[index].remote()});
  } else if (spec_.operation == "write") {
    rdma::Write write{data, peers_[index].remote()};
    if (immediate_) write.imm(0);
    submit(write);
  } else {
    rdma::Send send{data};
    if (!addresses_.empty()) send.to(addresses_[index], peers_[index].qpn, kQkey);
    submit(send);
  }
}

std::span<rdma::Completion> RdmaEnd::take() {
  constexpr std::chrono::milliseconds kNap{20};
  const auto done = spec_.completion == "events" ? cq_.wait(room_, kNap) : cq_.poll(room_);
  for (const rdma::Completion& one : done) {
    if (one.status == IBV_WC_SUCCESS) continue;
    control_.check_alive();  // if the other end is gone, say so
    throw Failed{fmt::format("{}: a request of queue pair {} completed with {}", device(),
                             one.qp_num, ibv_wc_status_str(one.status))};
  }
  return done;
}

}  // namespace verbena::bench
