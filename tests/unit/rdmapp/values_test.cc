// The parts of rdma++ that need no device: addresses, deadlines, rights, codecs, explanations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma++/rdma.h>

#include <set>

namespace rdma {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

template <class... Owners>
constexpr bool move_only() {
  return ((!std::is_copy_constructible_v<Owners> && !std::is_copy_assignable_v<Owners> &&
           std::is_nothrow_move_constructible_v<Owners>)&&...);
}
static_assert(move_only<Context, ProtectionDomain, MemoryRegion, MemoryWindow, Buffer,
                        CompletionQueue, QueuePair, SharedReceiveQueue, AddressHandle, XrcDomain,
                        Connection, ConnectionRequest, Listener, TcpBootstrap>());
static_assert(std::is_convertible_v<const Buffer&, Slice> &&
              !std::is_convertible_v<Buffer&&, Slice>);
static_assert(Value<RemoteBuffer> && Value<Completion> && !Value<Buffer>);

TEST(Gid, IsAnAddressOfEitherFamily) {
  const auto v4 = Gid::parse("192.0.2.7");
  ASSERT_TRUE(v4);
  EXPECT_TRUE(v4->is_ipv4());
  EXPECT_EQ(v4->to_string(), "192.0.2.7");
  const auto v6 = Gid::parse("fe80::1");
  ASSERT_TRUE(v6);
  EXPECT_FALSE(v6->is_ipv4());
  EXPECT_TRUE(v6->is_link_local());
  EXPECT_EQ(v6->to_string(), "fe80::1");
  EXPECT_EQ(Gid::from(v6->raw()), *v6);
  EXPECT_FALSE(Gid::parse("not an address"));
  EXPECT_TRUE(Gid::parse("239.1.1.1")->is_multicast());
  EXPECT_TRUE(Gid::parse("ff0e::1")->is_multicast());
  EXPECT_FALSE(v4->is_multicast());
  EXPECT_TRUE(Gid{}.is_zero());
}

TEST(GidTable, RowsToSpeakFromAreRanked) {
  const GidEntry v1{*Gid::parse("192.0.2.1"), 0, IBV_GID_TYPE_ROCE_V1};
  const GidEntry local{*Gid::parse("fe80::1"), 1, IBV_GID_TYPE_ROCE_V2};
  const GidEntry v6{*Gid::parse("2001:db8::1"), 2, IBV_GID_TYPE_ROCE_V2};
  const GidEntry v4{*Gid::parse("192.0.2.1"), 3, IBV_GID_TYPE_ROCE_V2};
  EXPECT_LT(rank(v1, {}), rank(local, {}));
  EXPECT_LT(rank(local, {}), rank(v6, {}));
  EXPECT_LT(rank(v6, {}), rank(v4, {}));
  EXPECT_GT(rank(v6, Gid{}), rank(v4, Gid{})) << "the peer speaks IPv6";
}

TEST(SocketAddress, KeepsFamilyAndPort) {
  const auto v4 = SocketAddress::of("127.0.0.1", 7471);
  EXPECT_EQ(v4.to_string(), "127.0.0.1:7471");
  EXPECT_TRUE(v4.is_loopback());
  const auto v6 = SocketAddress::of("::1", 80);
  EXPECT_EQ(v6.to_string(), "[::1]:80");
  EXPECT_TRUE(v6.is_loopback());
  EXPECT_EQ(SocketAddress::any(5).port(), 5);
  EXPECT_EQ(SocketAddress::of(GidEntry{*Gid::parse("192.0.2.1")}, 9).to_string(), "192.0.2.1:9");
  EXPECT_EQ(SocketAddress::of(GidEntry{*Gid::parse("2001:db8::1")}, 9).to_string(),
            "[2001:db8::1]:9");
}

TEST(Deadline, RoundsUpAndNeverEnds) {
  EXPECT_TRUE(Deadline::never().is_never());
  EXPECT_EQ(Deadline::never().poll_timeout(), -1);
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_TRUE(Deadline{-1s}.passed());
  EXPECT_EQ(Deadline{-1s}.poll_timeout(), 0);
  EXPECT_GE(Deadline{1us}.poll_timeout(), 0);
  EXPECT_LE(Deadline{1us}.poll_timeout(), 1);
  EXPECT_LT(Deadline{1s}, Deadline{2s});
  EXPECT_TRUE(Deadline{std::chrono::hours{24 * 365 * 1000}}.is_never()) << "beyond the clock";
}

TEST(Access, RemoteWritingImpliesLocalWriting) {
  EXPECT_TRUE(has(with_implied(Access::remote_write), Access::local_write));
  EXPECT_TRUE(has(with_implied(Access::remote_atomic), Access::local_write));
  EXPECT_FALSE(has(with_implied(Access::remote_read), Access::local_write));
  EXPECT_EQ(to_string(Access::remote_read | Access::local_write), "local_write|remote_read");
  EXPECT_EQ(to_string(Access::none), "none");
  EXPECT_EQ(bits(Access::remote_write), IBV_ACCESS_REMOTE_WRITE);
}

TEST(Slice, StaysInsideItsMemory) {
  const Slice slice{1000, 100, 7};
  EXPECT_EQ(slice.slice(10, 90).addr, 1010u);
  EXPECT_THROW((void)slice.slice(11, 90), std::out_of_range);
  const RemoteBuffer remote{1000, 100, 7};
  EXPECT_EQ(remote.slice(100, 0).addr, 1100u);
  EXPECT_THROW((void)remote.slice(1, UINT64_MAX), std::out_of_range) << "no wrap-around";
}

TEST(DeviceChoice, PrefersOursButNotTheLoopback) {
  EXPECT_FALSE(default_choice({}));
  EXPECT_EQ(default_choice({{"vb_lo", true}}), 0u);
  EXPECT_EQ(default_choice({{"vb_lo", true}, {"mlx5_0", true}}), 1u);
  EXPECT_EQ(default_choice({{"mlx5_0", true}, {"vb_eth0", true}, {"vb_lo", true}}), 1u);
  EXPECT_EQ(default_choice({{"vb_eth0", false}, {"mlx5_0", true}}), 1u) << "one that is down";
  EXPECT_EQ(default_choice({{"mlx5_0", false}, {"mlx5_1", true}, {"mlx5_2", true}}), 1u);
}

TEST(ConnInfo, ComesBackFromTheWire) {
  const ConnInfo info{.gid = *Gid::parse("192.0.2.1"),
                      .lid = 0x1234,
                      .qpn = 0xabcdef,
                      .psn = 0xffffff,
                      .port = 2,
                      .sl = 3,
                      .mtu = IBV_MTU_4096,
                      .raddr = 0x1122334455667788,
                      .rlength = 0x99,
                      .rkey = 0xdeadbeef};
  const auto wire = info.encode();
  EXPECT_EQ(std::to_integer<int>(wire[8 + 10]), 0xff) << "the GID follows eight bytes of magic";
  EXPECT_EQ(std::to_integer<int>(wire[24]), 0x12) << "big-endian";
  EXPECT_EQ(ConnInfo::decode(wire), info);
  EXPECT_EQ(info.remote(), (RemoteBuffer{0x1122334455667788, 0x99, 0xdeadbeef}));
  EXPECT_THAT(info.to_string(), AllOf(HasSubstr("qpn 0xabcdef"), HasSubstr("mtu 4096")));
}

TEST(ConnInfo, RefusesWhatCannotBe) {
  const auto good = ConnInfo{}.encode();
  ASSERT_TRUE(ConnInfo::decode(good));
  for (const std::size_t at : {std::size_t{0}, std::size_t{26}, std::size_t{30}, std::size_t{39}}) {
    auto bad = good;  // magic; QPN and PSN of more than 24 bits; an MTU of 9
    bad[at] = std::byte{9};
    EXPECT_FALSE(ConnInfo::decode(bad)) << "byte " << at;
  }
}

TEST(CompletionStatus, EveryStatusIsExplained) {
  std::set<std::string> names;
  for (int status = IBV_WC_SUCCESS; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    const StatusText& row = explain(static_cast<ibv_wc_status>(status));
    EXPECT_EQ(row.status, status);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    if (status == IBV_WC_SUCCESS) continue;
    EXPECT_STRNE(row.cause, "");
    EXPECT_STRNE(row.remedy, "");
  }
  EXPECT_EQ(explain(static_cast<ibv_wc_status>(31)).status, IBV_WC_GENERAL_ERR);
}

TEST(Completion, SaysWhatWhyAndWhatNext) {
  Completion done{};
  done.wr_id = 7;
  done.qp_num = 0x11;
  done.status = IBV_WC_RNR_RETRY_EXC_ERR;
  EXPECT_FALSE(done);
  EXPECT_THAT(done.message(),
              AllOf(StartsWith("RNR_RETRY_EXC_ERR: "), HasSubstr("request 7, qp 0x11"),
                    HasSubstr("usual cause: "), HasSubstr("what to do: post receives")));
  EXPECT_THROW(done.check(), CompletionError);
  done.status = IBV_WC_SUCCESS;
  done.imm_data = htonl(0x01020304);
  EXPECT_EQ(done.check().imm(), 0x01020304u);
}

TEST(Limits, NameBothNumbers) {
  ibv_device_attr device{};
  device.max_qp_wr = 100;
  device.max_sge = 4;
  device.max_cqe = 50;
  device.phys_port_cnt = 1;
  device.max_qp_rd_atom = 16;
  const ibv_qp_cap cap{.max_send_wr = 101,
                       .max_recv_wr = 5,
                       .max_send_sge = 5,
                       .max_recv_sge = 1,
                       .max_inline_data = 0};
  EXPECT_EQ(limits::of_queue_pair(cap, false, device),
            "max_send_wr 101 exceeds max_qp_wr 100; max_send_sge 5 exceeds max_sge 4");
  EXPECT_EQ(limits::of_completion_queue(51, 0, device, 1), "cqe 51 exceeds max_cqe 50");
  EXPECT_THAT(limits::of_completion_queue(0, 0, device, 1), HasSubstr("not positive"));

  ibv_port_attr port{};
  port.active_mtu = IBV_MTU_1024;
  port.gid_tbl_len = 2;
  port.pkey_tbl_len = 1;
  port.link_layer = IBV_LINK_LAYER_ETHERNET;
  const RtrAttributes rtr{.mtu = IBV_MTU_4096, .max_dest_rd_atomic = 17};
  EXPECT_THAT(
      limits::of_transition(rtr.attributes(), RtrAttributes::mask(IBV_QPT_RC), device, port),
      AllOf(HasSubstr("path_mtu 4096 exceeds active_mtu 1024 of the port"),
            HasSubstr("RoCE needs is_global"),
            HasSubstr("max_dest_rd_atomic 17 exceeds max_qp_rd_atom 16")));
  const RtsAttributes rts{.retry_count = 8};
  EXPECT_THAT(
      limits::of_transition(rts.attributes(), RtsAttributes::mask(IBV_QPT_RC), device, port),
      HasSubstr("retry_cnt 8 exceeds"));
  EXPECT_EQ(limits::of_transition(InitAttributes{}.attributes(), InitAttributes::mask(IBV_QPT_RC),
                                  device, port),
            "");
}

TEST(Requests, AreTheStructsOfTheVerbs) {
  const Slice data{0x1000, 64, 3};
  const RemoteBuffer remote{0x2000, 64, 9};
  const Write write = Write{data, remote}.id(5).signaled().imm(0x0a0b0c0d);
  EXPECT_EQ(write.raw()->wr_id, 5u);
  EXPECT_EQ(write.raw()->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  EXPECT_EQ(write.raw()->send_flags, unsigned{IBV_SEND_SIGNALED});
  EXPECT_EQ(write.raw()->imm_data, htonl(0x0a0b0c0d));
  EXPECT_EQ(write.raw()->wr.rdma.remote_addr, 0x2000u);
  EXPECT_EQ(write.raw()->wr.rdma.rkey, 9u);
  ASSERT_EQ(write.raw()->num_sge, 1);
  EXPECT_EQ(write.raw()->sg_list[0].addr, 0x1000u);

  const CompareSwap swap{data, remote, 1, 2};
  EXPECT_EQ(swap.raw()->opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
  EXPECT_EQ(swap.raw()->wr.atomic.compare_add, 1u);
  EXPECT_EQ(swap.raw()->wr.atomic.swap, 2u);
  const FetchAdd add{data, remote, 4};
  EXPECT_EQ(add.raw()->wr.atomic.compare_add, 4u);
  const Send send = Send{}.invalidate(77).fence().solicited();
  EXPECT_EQ(send.raw()->opcode, IBV_WR_SEND_WITH_INV);
  EXPECT_EQ(send.raw()->invalidate_rkey, 77u);
  EXPECT_EQ(send.raw()->send_flags, unsigned{IBV_SEND_FENCE | IBV_SEND_SOLICITED});
}

TEST(Requests, CopiesHoldSlicesOfTheirOwn) {
  const Slice pieces[] = {{1, 1, 1}, {2, 2, 2}};
  std::vector<SendRequest> kept;
  for (int i = 0; i < 5; ++i) kept.push_back(Send{pieces});  // moves them around
  for (const SendRequest& request : kept) {
    const auto* const own = reinterpret_cast<const std::byte*>(&request);
    const auto* const list = reinterpret_cast<const std::byte*>(request.raw()->sg_list);
    EXPECT_TRUE(list >= own && list < own + sizeof request);
    EXPECT_EQ(request.raw()->sg_list[1].addr, 2u);
  }
  const std::vector<Slice> outside(9);
  const Send original{std::span{outside}};
  Send copy = original;
  copy.id(4);
  EXPECT_EQ(original.id(), 0u);
  EXPECT_EQ(copy.raw()->sg_list, outside.data()) << "longer lists stay where they are";
  const Recv receive = Recv{Slice{8, 8, 8}}.id(3);
  Recv second = receive;
  second.id(4);
  EXPECT_EQ(receive.id(), 3u);
  EXPECT_NE(second.raw()->sg_list, receive.raw()->sg_list);
  EXPECT_EQ(second.raw()->sg_list->addr, 8u);
}

TEST(PostStatus, ExplainsWhatIsKnown) {
  EXPECT_TRUE(PostStatus{});
  EXPECT_THAT(PostStatus("ibv_post_send", ENOMEM).message(), HasSubstr("the queue is full"));
  EXPECT_THROW(PostStatus("ibv_post_send", EINVAL).check(), Error);
}

TEST(Error, PutsItsPartsInOrder) {
  const Error error{"ibv_create_qp", "device vb_lo", EINVAL, "max_send_wr 9 exceeds max_qp_wr 8"};
  EXPECT_STREQ(
      error.what(),
      "ibv_create_qp: device vb_lo: max_send_wr 9 exceeds max_qp_wr 8: Invalid argument (22)");
}

}  // namespace
}  // namespace rdma
