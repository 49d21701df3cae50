#include "wire/capture.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/bytes.h"
#include "packet/icrc.h"
#include "tests/support/folder.h"
#include "tests/support/station.h"

namespace verbena::wire::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string contents(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

template <typename T>
T number_at(const std::string& bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct Block {
  std::uint32_t type;
  std::string body;
};

/// Checks both lengths of every block.
std::vector<Block> blocks_of(const std::string& file) {
  std::vector<Block> blocks;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = number_at<std::uint32_t>(file, at + 4);
    EXPECT_EQ(length % 4, 0u);
    EXPECT_LE(at + length, file.size());
    EXPECT_EQ(number_at<std::uint32_t>(file, at + length - 4), length);
    blocks.push_back({number_at<std::uint32_t>(file, at), file.substr(at + 8, length - 12)});
    at += length;
  }
  return blocks;
}

std::uint16_t checksum(std::span<const std::uint8_t> bytes, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    sum += std::uint32_t{bytes[i]} << 8 | (i + 1 < bytes.size() ? bytes[i + 1] : 0);
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

constexpr std::uint32_t kPacket = 6;

std::vector<std::uint8_t> packet_in(const Block& block) {
  const auto size = number_at<std::uint32_t>(block.body, 12);
  EXPECT_EQ(size, number_at<std::uint32_t>(block.body, 16));
  const auto* first = reinterpret_cast<const std::uint8_t*>(block.body.data()) + 20;
  return {first, first + size};
}

/// Everything that a router or a peer would check of an IPv4 packet.
void expect_sound_v4(const std::vector<std::uint8_t>& p) {
  ASSERT_GT(p.size(), 28u);
  EXPECT_EQ(p[0], 0x45);
  EXPECT_EQ(load_be16(&p[2]), p.size());
  EXPECT_EQ(checksum(std::span{p}.first(20)), 0xffff);
  EXPECT_EQ(load_be16(&p[22]), packet::kRocePort);
  EXPECT_EQ(load_be16(&p[24]), p.size() - 20);
  const auto udp = std::span{p}.subspan(20);
  const std::uint32_t pseudo = checksum(std::span{p}.subspan(12, 8)) + 17u + load_be16(&p[24]);
  EXPECT_EQ(checksum(udp, pseudo), 0xffff);
  const packet::IcrcHeaders headers{
      .source = IpAddress::v4({p[12], p[13], p[14], p[15]}),
      .destination = IpAddress::v4({p[16], p[17], p[18], p[19]}),
      .source_port = load_be16(&p[20]),
      .destination_port = load_be16(&p[22]),
      .identification = load_be16(&p[4]),
  };
  const auto frame = std::span{p}.subspan(28, p.size() - 32);
  EXPECT_EQ(packet::icrc(headers, frame), packet::load_icrc(&p[p.size() - 4]));
}

TEST(Capture, HasEveryFrameOfBothDirectionsWithSoundHeaders) {
  const Folder folder;
  const std::string path = folder.file("out.pcapng");
  Station a{loopback(1), {.faults = {}, .capture = path}};
  Station b{loopback(2)};
  settle({&a, &b});
  for (std::uint8_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(a.send(a.flow_to(b.address), frame_to(b.qpn(), 201 + i % 2u, i)));
  }
  ASSERT_TRUE(b.send(b.flow_to(a.address), frame_to(a.qpn(), 100, 9)));
  a.flush();
  b.flush();
  ASSERT_TRUE(
      run_until({&a, &b}, [&] { return b.sink.frames.size() == 5 && a.sink.frames.size() == 1; }));
  a.flush();

  const auto blocks = blocks_of(contents(path));
  ASSERT_GE(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].type, 0x0a0d0d0au);
  EXPECT_EQ(number_at<std::uint32_t>(blocks[0].body, 0), 0x1a2b3c4du);
  int sent = 0;
  int received = 0;
  for (const Block& block : blocks) {
    if (block.type != kPacket) continue;
    expect_sound_v4(packet_in(block));
    const auto flags = number_at<std::uint32_t>(block.body, block.body.size() - 8);
    ++(flags == 2 ? sent : received);
  }
  EXPECT_EQ(sent, 5);
  EXPECT_EQ(received, 1);
  EXPECT_EQ(a.capture->lost(), 0u);
}

TEST(Capture, ShowsWhatFaultsThenDrop) {
  const Folder folder;
  const std::string path = folder.file("out.pcapng");
  Station a{loopback(1), {.faults = settings::FaultSpec{.drop = 1}, .capture = path}};
  for (std::uint8_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(a.send(a.flow_to(loopback(2)), frame_to(Qpn{7}, 100, i)));
  }
  a.flush();
  EXPECT_EQ(a.counters().frames_sent, 0u);
  EXPECT_EQ(a.faulty->fault_counters().dropped, 3u);
  const auto blocks = blocks_of(contents(path));
  EXPECT_EQ(std::ranges::count(blocks, kPacket, &Block::type), 3);
}

TEST(Capture, AFullDiskIsSaidAtTheStart) {
  const auto opened = Capture::open("/dev/full");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
}

TEST(Capture, AFolderThatIsNotThereIsSaidAtTheStart) {
  const Folder folder;
  const auto opened = Capture::open(folder.file("no/out.pcapng"));
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, AllOf(HasSubstr("no/out.pcapng"), HasSubstr("No such file")));
}

TEST(Capture, WhenTheDiskIsFullLaterFramesAreCountedAndTheFileIsWhole) {
  const Folder folder;
  const std::string path = folder.file("out.pcapng");
  // The limit is the process' own, so the test is one.
  const auto limited = [&] {
    const rlimit limit{4096, 4096};
    ::signal(SIGXFSZ, SIG_DFL);  // which ends the process
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto capture = Capture::open(path);
    if (!capture) return 1;
    const auto frame = frame_to(Qpn{7}, 1000, 1);
    const packet::Flow flow{.source = loopback(1), .destination = loopback(2), .source_port = 1};
    for (int i = 0; i < 10; ++i) {
      (*capture)->sending();
      (*capture)->sent(flow, frame, frame.size(), 1);
      (*capture)->flushed();
    }
    if ((*capture)->error().find("File too large") == std::string::npos) return 2;
    return (*capture)->lost() == 7 ? 0 : 3;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(limited());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const auto blocks = blocks_of(contents(path));
  EXPECT_EQ(std::ranges::count(blocks, kPacket, &Block::type), 3);
}

}  // namespace
}  // namespace verbena::wire::test
