#pragma once

// The queue pair that is broken on purpose, again and again. A second, healthy connection carries
// what its two ends must tell each other to bring it back.

#include <random>

#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/common/pattern.h"
#include "labs/common/state.h"

namespace errors {

class Victim {
 public:
  Victim(const lab::Options& options, rdma::Connection& control, lab::Role role)
      : options_{options},
        control_{control},
        role_{role},
        cq_{control.context(), 16},
        qp_{rdma::QueuePair::rc(control.pd()).cq(cq_).depth(8, 8).create()},
        out_{control.buffer(options.size + 1)},
        in_{control.buffer(options.size, rdma::Access::remote_write)},
        local_{describe_self()} {}

  [[nodiscard]] rdma::QueuePair& qp() { return qp_; }
  [[nodiscard]] const rdma::Buffer& out() const { return out_; }  // one byte more than in()
  [[nodiscard]] const rdma::Buffer& in() const { return in_; }
  [[nodiscard]] const rdma::RemoteBuffer& remote() const { return remote_; }
  [[nodiscard]] const char* state() const { return lab::state_name(qp_.query().qp_state); }

  /// From whatever state to RTS; both ends at once. A fresh PSN keeps packets of the former life
  /// from being taken for ours.
  void bring_up(const rdma::RtsAttributes& patience = {},
                rdma::Access access = rdma::Access::remote_write) {
    qp_.to_reset();
    while (cq_.poll()) continue;  // what is left of the former life
    local_.psn = std::random_device{}() & 0xff'ffffu;
    const rdma::ConnInfo peer = exchange();
    remote_ = peer.remote();
    qp_.to_init({.port = local_.port, .access = access});
    qp_.to_rtr({.path = qp_.path_to(peer),
                .qpn = peer.qpn,
                .psn = peer.psn,
                .mtu = std::min(local_.mtu, peer.mtu),
                .max_dest_rd_atomic = 1});
    rdma::RtsAttributes ready = patience;
    ready.psn = local_.psn;
    ready.max_rd_atomic = 1;
    qp_.to_rts(ready);
    control_.barrier();
  }

  [[nodiscard]] rdma::Completion next() {
    const auto done = cq_.wait(options_.deadline);
    lab::in_time(done.has_value(), "a completion");
    return *done;
  }
  void expect(std::uint64_t id, ibv_wc_status status) {
    const rdma::Completion done = next();
    lab::check(done.id() == id && done.status == status, "expected {} for request {}, got {}",
               rdma::explain(status).name, id, done.message());
  }

  /// Both ends: one message from the client to the server, every byte checked.
  void prove(std::uint64_t seed) {
    if (role_ == lab::Role::server) qp_.post(rdma::Recv{in_}.id(1)).check();
    control_.barrier();
    if (role_ == lab::Role::client) {
      lab::fill_pattern(out_.bytes(), seed);
      qp_.post(rdma::Send{out_.slice(0, in_.size())}.id(1).signaled()).check();
    }
    expect(1, IBV_WC_SUCCESS);
    lab::check(role_ == lab::Role::client || lab::first_difference(in_.bytes(), seed) == in_.size(),
               "the queue pair came back, but its message is garbled");
    control_.barrier();
  }

 private:
  rdma::ConnInfo describe_self() {
    const rdma_cm_id& id = *control_.id().raw();  // it knows by which address the peer is reached
    const auto row =
        control_.context().find_gid(rdma::Gid::from(id.route.addr.addr.ibaddr.sgid), id.port_num);
    lab::check(row.has_value(), "the device has no row for the address of {}",
               control_.local().to_string());
    rdma::ConnInfo info = qp_.info(id.port_num, row);
    return info.offer(in_.remote());
  }
  /// The server answers: if both sent first, neither would have a receive for the other.
  rdma::ConnInfo exchange() {
    rdma::ConnInfo::Wire wire{};
    if (role_ == lab::Role::client) control_.send_value(local_.encode());
    wire = control_.recv_value<rdma::ConnInfo::Wire>();
    if (role_ == lab::Role::server) control_.send_value(local_.encode());
    const auto peer = rdma::ConnInfo::decode(wire);
    lab::check(peer.has_value(), "what the peer sent is no ConnInfo");
    return *peer;
  }

  const lab::Options& options_;
  rdma::Connection& control_;
  lab::Role role_;
  rdma::CompletionQueue cq_;
  rdma::QueuePair qp_;
  rdma::Buffer out_, in_;
  rdma::ConnInfo local_;
  rdma::RemoteBuffer remote_{};
};

}  // namespace errors
