// Files that a report can read in part: damaged lines of a trace, packets that a capture cut short.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/report/build.h"

namespace verbena::report {
namespace {

class DamagedFile : public ::testing::Test {
 protected:
  ~DamagedFile() override { std::remove(path_.c_str()); }

  Observations read(const std::string& bytes) const {
    std::ofstream{path_, std::ios::binary} << bytes;
    return read_files({path_});
  }

  const std::string path_ = testing::TempDir() + "report_damage." + std::to_string(getpid());
};

constexpr auto kStart =
    R"({"t":0,"pid":1,"event":"start","version":2,"wall":0,"program":"p","host":"h","boot":"b"})"
    "\n";

std::string sent(const std::string& time, const std::string& psn, const std::string& headers) {
  return R"({"t":)" + time +
         R"(,"pid":1,"event":"sent","qp":"0x000011","destination_qp":"0x000012")" +
         R"(,"opcode":"RC SEND only","psn":)" + psn + R"(,"bytes":0,"headers":")" + headers +
         "\"}\n";
}

TEST_F(DamagedFile, LinesOfATraceAreLeftOut) {
  const std::string headers = "0440ffff000000128000000a";
  const std::string whole = sent("5", "16777215", headers);
  const Observations seen = read(
      kStart + whole + sent("-5", "10", headers) + sent("\"5\"", "10", headers) +
      sent("5.5", "10", headers) + sent("5", "16777216", headers) + sent("5", "-1", headers) +
      sent("5", "\"x\"", headers) + sent("5", "10", "0440xx") + sent("5", "10", headers + "0") +
      sent("5", "10", "1140ffff") + sent("5", "10", "") + whole);
  EXPECT_EQ(seen.all.size(), 2u);
  ASSERT_EQ(seen.remarks.size(), 1u);
  EXPECT_TRUE(seen.remarks[0].ends_with(":3: this line and 9 more are no events, and are left out"))
      << seen.remarks[0];
}

TEST_F(DamagedFile, OneLineIsOne) {
  const Observations seen = read(kStart + sent("\"\"", "10", ""));
  ASSERT_EQ(seen.remarks.size(), 1u);
  EXPECT_TRUE(seen.remarks[0].ends_with(":2: this line is no event, and is left out"));
}

std::string le32(std::uint32_t v) {
  std::string bytes;
  for (unsigned shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(v >> shift));
  return bytes;
}

/// A classic capture with frames of Ethernet, each cut to at most `most` bytes.
std::string capture(const std::vector<std::string>& frames, std::size_t most) {
  std::string file = le32(0xa1b2c3d4) + le32(0x0004'0002) + le32(0) + le32(0) +
                     le32(static_cast<std::uint32_t>(most)) + le32(1);
  for (const std::string& frame : frames) {
    const std::string kept = frame.substr(0, most);
    file += le32(1) + le32(0) + le32(static_cast<std::uint32_t>(kept.size())) +
            le32(static_cast<std::uint32_t>(frame.size())) + kept;
  }
  return file;
}

/// A SEND only with 16 bytes; or the same as TCP.
std::string frame(char protocol) {
  using namespace std::string_literals;
  return std::string(12, '\2') + "\x08\0"s + "\x45\0\0\x40\0\0\0\0\x40"s + protocol +
         "\0\0\x0a\0\0\1\x0a\0\0\2"s + "\xc0\0\x12\xb7\0\x28\0\0"s +
         "\4\0\xff\xff\0\0\0\x12\x80\0\0\x0a"s + std::string(20, '\0');
}

TEST_F(DamagedFile, PacketsThatACaptureCutShortAreNamed) {
  const std::string roce = frame(17), tcp = frame(6);
  const auto remarks = [&](const std::vector<std::string>& frames, std::size_t most) {
    std::string text;
    for (const std::string& r : read(capture(frames, most)).remarks) text += r + "\n";
    return text;
  };
  EXPECT_EQ(remarks({roce, roce}, 1000), "");
  EXPECT_EQ(remarks({roce, roce}, 54), "");  // headers are enough
  const std::string cut = " cut short by the capture (snap length), and ";
  for (const std::size_t most : {10u, 20u, 40u, 53u}) {
    EXPECT_EQ(remarks({roce}, most), path_ + ": 1 packet was" + cut + "is left out\n") << most;
  }
  EXPECT_EQ(remarks({roce, tcp, roce}, 40), path_ + ": 1 packet is no RoCEv2, and is left out\n" +
                                                path_ + ": 2 packets were" + cut +
                                                "are left out\n");
  EXPECT_EQ(remarks({tcp, tcp}, 1000), path_ + ": 2 packets are no RoCEv2, and are left out\n");
}

}  // namespace
}  // namespace verbena::report
