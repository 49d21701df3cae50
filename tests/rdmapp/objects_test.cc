// Devices, contexts, domains, memory: made, asked and destroyed in any order.
#include "tests/rdmapp/loopback.h"

namespace rdma::test {
namespace {

using testing::HasSubstr;

class Objects : public Quiet {};

TEST_F(Objects, DevicesAreFoundByNameAddressAndPeer) {
  EXPECT_EQ(Device::by_name(kDevice).name(), kDevice);
  EXPECT_TRUE(Device::by_name(kDevice).is_verbena());
  EXPECT_EQ(device_with_address("127.0.0.1").name(), kDevice);
  EXPECT_EQ(device_reaching("127.0.0.1").name(), kDevice);
  EXPECT_EQ(choose_device("", "127.0.0.1").name(), kDevice);
  EXPECT_EQ(choose_device(kDevice).name(), kDevice);
  EXPECT_FALSE(default_device().name().empty());
}

TEST_F(Objects, ADeviceOutlivesTheListItCameFrom) {
  std::vector<Device> all = Device::all();
  const Device first = all.front();
  all.clear();
  EXPECT_EQ(Context{first}.name(), first.name());
}

TEST_F(Objects, UnknownDevicesAreNamedWithThoseThatExist) {
  const auto message = message_of<Error>([] { (void)Device::by_name("mlx9_7"); });
  EXPECT_THAT(message, HasSubstr("device \"mlx9_7\""));
  EXPECT_THAT(message, HasSubstr(kDevice));
  EXPECT_THAT(message_of<Error>([] { (void)device_with_address("203.0.113.77"); }),
              HasSubstr("no RDMA device has it"));
  EXPECT_THAT(message_of<Error>([] { (void)device_with_address("nonsense"); }),
              HasSubstr("no IP address"));
}

TEST_F(Objects, AContextTellsItsLimitsPortAndAddresses) {
  const Context context{Device::by_name(kDevice)};
  EXPECT_GT(context.limits().max_qp_wr, 0);
  EXPECT_TRUE(context.is_active());
  const auto row = context.find_gid(*Gid::parse("127.0.0.1"));
  ASSERT_TRUE(row);
  EXPECT_EQ(context.best_gid().index, row->index);
  EXPECT_EQ(context.best_gid().gid.to_string(), "127.0.0.1");
  EXPECT_THAT(message_of<Error>([&] { (void)context.port(7); }), HasSubstr("ports 1 to 1"));
}

TEST_F(Objects, ParentsLiveAsLongAsTheirChildren) {
  auto context = std::make_unique<Context>(Device::by_name(kDevice));
  auto pd = std::make_unique<ProtectionDomain>(*context);
  auto cq = std::make_unique<CompletionQueue>(*context, 16);
  auto srq = std::make_unique<SharedReceiveQueue>(*pd, 16);
  auto buffer = std::make_unique<Buffer>(*pd, 4096, Access::remote_write);
  auto window = std::make_unique<MemoryWindow>(*pd, MemoryWindow::Type::two);
  auto qp = std::make_unique<QueuePair>(QueuePair::rc(*pd).cq(*cq).srq(*srq).create());
  // The wrong order of C: every one of these would be refused with EBUSY there.
  context.reset();
  pd.reset();
  cq.reset();
  srq.reset();
  buffer->set_text("alive");
  EXPECT_EQ(qp->query().qp_state, IBV_QPS_RESET);
  qp.reset();
  EXPECT_EQ(buffer->text(), "alive");
  window.reset();
  buffer.reset();
}

TEST_F(Objects, RegionsCoverTheCallersBytes) {
  const Context context{Device::by_name(kDevice)};
  const ProtectionDomain pd{context};
  std::vector<std::byte> bytes(1000);
  const MemoryRegion region{pd, bytes, Access::remote_write};
  EXPECT_EQ(region.size(), bytes.size());
  EXPECT_TRUE(has(region.access(), Access::local_write)) << "remote_write implies it";
  const Slice part = region.slice(100, 50);
  EXPECT_EQ(part.addr, reinterpret_cast<std::uintptr_t>(bytes.data()) + 100);
  EXPECT_EQ(part.length, 50u);
  EXPECT_EQ(part.lkey, region.lkey());
  EXPECT_EQ(region.remote().rkey, region.rkey());
  EXPECT_THROW((void)region.slice(990, 11), std::out_of_range);
}

TEST_F(Objects, BuffersAreAlignedZeroedAndTyped) {
  const Context context{Device::by_name(kDevice)};
  const ProtectionDomain pd{context};
  Buffer buffer{pd, 4096};
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0u);
  EXPECT_EQ(buffer.text(), "");
  buffer.as<std::uint64_t>()[1] = 42;
  EXPECT_EQ(std::to_integer<int>(buffer.bytes()[8]), 42);
  EXPECT_EQ(buffer.as<double>().size(), 512u);
  buffer.set_text("hello");
  Buffer other{pd, 64};
  other = std::move(buffer);
  EXPECT_EQ(other.text(), "hello");
  EXPECT_EQ(other.size(), 4096u);
  EXPECT_THROW(other.set_text(std::string(4097, 'x')), std::out_of_range);
}

TEST_F(Objects, AsyncEventsAreWaitedForWithADeadline) {
  const Context context{Device::by_name(kDevice)};
  const auto before = Deadline::Clock::now();
  EXPECT_FALSE(context.next_event(20ms));
  EXPECT_GE(Deadline::Clock::now() - before, 20ms);
}

}  // namespace
}  // namespace rdma::test
