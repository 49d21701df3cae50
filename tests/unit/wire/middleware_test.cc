// Faults and captures in a wire on loopback.

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
#include "wire/capture.h"
#include "wire/transmitter.h"
#include "wire_fixture.h"

namespace verbena::wire::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "wire-test.XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

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
  a.wire->flush();
  b.wire->flush();
  ASSERT_TRUE(
      run_until({&a, &b}, [&] { return b.sink.frames.size() == 5 && a.sink.frames.size() == 1; }));
  a.wire->flush();

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
  EXPECT_EQ(a.wire->capture()->lost(), 0u);
}

TEST(Capture, ShowsWhatFaultsThenDrop) {
  const Folder folder;
  const std::string path = folder.file("out.pcapng");
  Station a{loopback(1), {.faults = settings::FaultSpec{.drop = 1}, .capture = path}};
  for (std::uint8_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(a.send(a.flow_to(loopback(2)), frame_to(Qpn{7}, 100, i)));
  }
  a.wire->flush();
  EXPECT_EQ(a.counters().frames_sent, 0u);
  EXPECT_EQ(a.wire->faults()->counters().dropped, 3u);
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
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto capture = Capture::open(path);
    if (!capture) return 1;
    const auto frame = frame_to(Qpn{7}, 1000, 1);
    const packet::Flow flow{.source = loopback(1), .destination = loopback(2), .source_port = 1};
    for (int i = 0; i < 10; ++i) {
      (*capture)->sent(flow, frame, frame.size(), 1);
      (*capture)->write();
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

TEST(OutputFile, TheProcessIdGoesBeforeTheExtension) {
  EXPECT_EQ(with_process_id("out.pcapng", 7), "out.7.pcapng");
  EXPECT_EQ(with_process_id("/a.b/out", 7), "/a.b/out.7");
  EXPECT_EQ(with_process_id("/a/.hidden", 7), "/a/.hidden.7");
  EXPECT_EQ(with_process_id("a.tar.gz", 7), "a.tar.7.gz");
}

TEST(OutputFile, TheSecondGetsAnotherName) {
  const Folder folder;
  const std::string path = folder.file("out");
  const auto first = OutputFile::open(path);
  const auto second = OutputFile::open(path);
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->path(), path);
  EXPECT_EQ(second->path(), with_process_id(path, static_cast<std::uint32_t>(::getpid())));
}

TEST(OutputFile, WhatAnotherHasWrittenIsKept) {
  const Folder folder;
  const std::string path = folder.file("out");
  std::ofstream{path} << "dear";
  const auto file = OutputFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_NE(file->path(), path);
  EXPECT_EQ(contents(path), "dear");
}

TEST(OutputFile, APipeIsRefused) {
  const Folder folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(OutputFile::open(path));
  const Fd reader{::open(path.c_str(), O_RDONLY | O_NONBLOCK)};
  const auto opened = OutputFile::open(path);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("not a regular file"));
}

TEST(FaultyWire, DelaysFramesAndTellsWhenItWantsToBeCalled) {
  Station a{loopback(1), {.faults = settings::FaultSpec{.delay = 20ms}, .capture = {}}};
  Station b{loopback(2)};
  settle({&a, &b});
  EXPECT_EQ(a.wire->next_deadline(), kNever);
  const Instant start = monotonic_now();
  ASSERT_TRUE(a.send(a.flow_to(b.address), frame_to(b.qpn(), 100, 1)));
  a.wire->flush();
  EXPECT_GE(a.wire->next_deadline(), start + 20ms);
  EXPECT_EQ(a.wire->next_deadline(), a.wire->empty_at());
  ASSERT_TRUE(run_until({&b}, [&] {
    a.wire->flush();
    return !b.sink.frames.empty();
  }));
  EXPECT_GE(monotonic_now() - start, 20ms);
  EXPECT_EQ(a.wire->empty_at(), Instant{});
}

TEST(FaultyWire, EveryFrameIsADatagramOfItsOwn) {
  Station a{loopback(1), {.faults = settings::FaultSpec{.drop = 0.5}, .capture = {}}};
  Station b{loopback(2)};
  settle({&a, &b});
  constexpr std::size_t kFrames = 200;
  for (std::size_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(a.send(a.flow_to(b.address), frame_to(b.qpn(), 100, static_cast<std::uint8_t>(i))));
  }
  a.wire->flush();
  const auto dropped = a.wire->faults()->counters().dropped;
  EXPECT_GT(dropped, kFrames / 4);
  EXPECT_LT(dropped, kFrames * 3 / 4);
  ASSERT_TRUE(run_until({&b}, [&] { return b.sink.frames.size() == kFrames - dropped; }));
  EXPECT_EQ(b.counters().icrc_errors, 0u);
}

TEST(FaultyWire, DamagedFramesDontGetThrough) {
  Station a{loopback(1), {.faults = settings::FaultSpec{.corrupt = 1}, .capture = {}}};
  Station b{loopback(2)};
  settle({&a, &b});
  for (std::uint8_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(a.send(a.flow_to(b.address), frame_to(b.qpn(), 100, i)));
  }
  a.wire->flush();
  ASSERT_TRUE(run_until(
      {&b}, [&] { return b.counters().icrc_errors + b.counters().handover_drops == 100; }));
  EXPECT_TRUE(b.sink.frames.empty());
}

TEST(FaultyWire, ASlowLineHoldsItsUserBack) {
  Station a{loopback(1), {.faults = settings::FaultSpec{.rate = 1e6}, .capture = {}}};
  Station b{loopback(2)};
  settle({&a, &b});
  const auto flow = a.flow_to(b.address);
  const auto frame = frame_to(b.qpn(), 1000, 1);
  std::size_t sent = 0;
  while (sent < 1000 && a.send(flow, frame)) ++sent;
  EXPECT_LE(sent, Transmitter::kMaxFaultyBatches);
  const std::size_t first = sent;
  ASSERT_TRUE(run_until({&b}, [&] {
    a.wire->flush();
    if (sent == first && a.send(flow, frame)) ++sent;
    return sent > first;
  }));
}

}  // namespace
}  // namespace verbena::wire::test
