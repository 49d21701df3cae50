// What set-up throws: the verb, the object, the numbers, the next step.
#include <netinet/in.h>

#include "tests/rdmapp/loopback.h"

namespace rdma::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Errors : public Quiet {
 protected:
  Context context{Device::by_name(kDevice)};
  ProtectionDomain pd{context};
  CompletionQueue cq{context, 16};
};

TEST_F(Errors, AQueuePairThatIsTooDeep) {
  const auto message =
      message_of<Error>([&] { (void)QueuePair::rc(pd).cq(cq).depth(1'000'000, 1).create(); });
  EXPECT_THAT(
      message,
      AllOf(HasSubstr("ibv_create_qp: device vb_lo"),
            HasSubstr(concat("max_send_wr 1000000 exceeds max_qp_wr ", context.limits().max_qp_wr)),
            HasSubstr("Invalid argument (22)")));
}

TEST_F(Errors, AQueuePairWithoutACompletionQueue) {
  EXPECT_THAT(message_of<Error>([&] { (void)QueuePair::rc(pd).create(); }),
              HasSubstr("no completion queue; call cq() first"));
}

TEST_F(Errors, ACompletionQueueThatIsTooLong) {
  const int asked = context.limits().max_cqe + 1;
  EXPECT_THAT(message_of<Error>([&] {
                CompletionQueue{context, asked};
              }),
              HasSubstr(concat("cqe ", asked, " exceeds max_cqe ", context.limits().max_cqe)));
  EXPECT_THAT(message_of<Error>([&] { CompletionQueue(context, 8, {.vector = 99}); }),
              HasSubstr("comp_vector 99 is not below num_comp_vectors"));
}

TEST_F(Errors, ASharedReceiveQueueThatIsTooDeep) {
  EXPECT_THAT(message_of<Error>([&] {
                SharedReceiveQueue{pd, 1'000'000};
              }),
              HasSubstr("max_wr 1000000 exceeds max_srq_wr"));
}

TEST_F(Errors, MemoryThatIsNotThere) {
  const std::span nowhere{reinterpret_cast<std::byte*>(4096), 4096};
  const auto message = message_of<Error>([&] { MemoryRegion(pd, nowhere, Access::local_write); });
  EXPECT_THAT(message, AllOf(HasSubstr("ibv_reg_mr"), HasSubstr("4096 bytes at 0x1000"),
                             HasSubstr("isn't mapped"), HasSubstr("Bad address")));
}

TEST_F(Errors, MemoryOfADescriptorThatIsNone) {
  Buffer buffer{pd, 4096};
  const auto message = message_of<Error>(
      [&] { (void)MemoryRegion::of_dmabuf(pd, -1, 0, buffer.bytes(), Access::remote_read); });
  EXPECT_THAT(message, AllOf(HasSubstr("ibv_reg_dmabuf_mr"), HasSubstr("descriptor -1")));
}

TEST_F(Errors, TransitionsSayWhichAttribute) {
  QueuePair qp = QueuePair::rc(pd).cq(cq).create();
  EXPECT_THAT(message_of<Error>([&] { qp.to_init({.port = 3}); }),
              AllOf(HasSubstr("reset to init"), HasSubstr("port_num 3 is not one of 1 to 1")));
  EXPECT_THAT(message_of<Error>([&] { qp.to_rts(); }),
              AllOf(HasSubstr("rtr to rts"), HasSubstr("in state RESET")));
  qp.to_init();
  EXPECT_THAT(message_of<Error>([&] {
                qp.to_rtr({.path = {.gid = context.best_gid().gid, .gid_index = 255}, .qpn = 1});
              }),
              HasSubstr("sgid_index 255 is not below gid_tbl_len"));
}

TEST_F(Errors, PostsReturnAStatus) {
  const QueuePair qp = QueuePair::rc(pd).cq(cq).create();
  Buffer buffer{pd, 64};
  const PostStatus status = qp.post(Send{buffer});
  EXPECT_FALSE(status);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("ibv_post_send"), HasSubstr("the state")));
  EXPECT_THROW(status.check(), Error);
}

TEST_F(Errors, AFullQueueSaysWhatEmptiesIt) {
  QueuePair qp = QueuePair::rc(pd).cq(cq).depth(1, 1).create();
  qp.to_init();
  const Buffer buffer{pd, 64};
  PostStatus status;
  for (int i = 0; i < 100'000 && status.ok(); ++i) status = qp.post(Recv{});
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("ibv_post_recv"), HasSubstr("a message has to take a receive")));
}

TEST_F(Errors, APortThatIsTaken) {
  const Listener first{SocketAddress::of(kHost, 0)};
  EXPECT_THAT(
      message_of<Error>([&] { Listener{SocketAddress::of(kHost, first.port())}; }),
      AllOf(HasSubstr(concat("127.0.0.1:", first.port())), HasSubstr("Address already in use")));
}

TEST_F(Errors, AnErrorKeepsItsParts) {
  try {
    (void)Device::by_name("none");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.verb(), "ibv_get_device_list");
    EXPECT_EQ(error.object(), "device \"none\"");
    EXPECT_EQ(error.code(), ENODEV);
  }
}

TEST_F(Errors, AWaitWithoutAChannelIsRefused) {
  CompletionQueue bare{context, 8, {.channel = false}};
  EXPECT_EQ(bare.fd(), -1);
  EXPECT_THROW((void)bare.wait(1ms), Error);
  EXPECT_FALSE(bare.spin(1ms));
}

}  // namespace
}  // namespace rdma::test
