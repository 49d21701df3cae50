// Messages of the peer: what two builds must agree on, and bytes that nobody sane would send.

#include "tools/transfer/messages.h"

#include <gtest/gtest.h>

#include <random>

namespace verbena::transfer {
namespace {

std::string refusal(const std::vector<std::byte>& message) {
  try {
    static_cast<void>(decode<Have>(message));
    return "";
  } catch (const Malformed& malformed) {
    return malformed.what();
  }
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(TransferMessages, NumbersAreBigEndianBehindAHeader) {
  EXPECT_EQ(encode(Holes{0x0102'0304'0506'0708, 1, 2}),
            bytes_of({'V', 'B', 'T', 'R', 0, 1, 0, 9, 0, 0, 0, 24,  // header
                      1,   2,   3,   4,   5, 6, 7, 8,               // id
                      0,   0,   0,   0,   0, 0, 0, 1,               // first
                      0,   0,   0,   0,   0, 0, 0, 2}));            // count
}

TEST(TransferMessages, AnEntryComesBackAsItWas) {
  const Entry entry{.id = 7,
                    .kind = static_cast<std::uint8_t>(Kind::link),
                    .sparse = 1,
                    .mode = 0640,
                    .seconds = -5,
                    .nanoseconds = 999'999'999,
                    .size = 1ull << 40,
                    .device = 3,
                    .inode = 4,
                    .path = std::string{"a/\xff\n", 4},
                    .target = "../b"};
  const auto back = decode<Entry>(encode(entry));
  EXPECT_EQ(back.id, entry.id);
  EXPECT_EQ(back.kind, entry.kind);
  EXPECT_EQ(back.mode, entry.mode);
  EXPECT_EQ(back.seconds, entry.seconds);
  EXPECT_EQ(back.nanoseconds, entry.nanoseconds);
  EXPECT_EQ(back.size, entry.size);
  EXPECT_EQ(back.path, entry.path);
  EXPECT_EQ(back.target, entry.target);
}

TEST(TransferMessages, TheLongestNamesFitAMessage) {
  EXPECT_NO_THROW(static_cast<void>(
      encode(Entry{.path = std::string(4095, 'a'), .target = std::string(4095, 'b')})));
  EXPECT_NO_THROW(static_cast<void>(
      encode(Have{.id = 0, .first = 0, .hashes = std::vector<Hash>(kHashesPerMessage)})));
  EXPECT_THROW(static_cast<void>(encode(Abort{std::string(kMessageSize, 'a')})), Malformed);
}

TEST(TransferMessages, RefusesWhatIsNoMessageOfThisVersion) {
  const auto good = encode(Have{1, 2, {Hash{}}});
  EXPECT_EQ(refusal(good), "");
  auto other = good;
  other[0] = std::byte{'X'};
  EXPECT_NE(refusal(other).find("no message of a transfer"), std::string::npos);
  other = good;
  other[5] = std::byte{9};
  EXPECT_NE(refusal(other).find("version 9, this end speaks 1"), std::string::npos);
  other = good;
  other[7] = std::byte{200};
  EXPECT_NE(refusal(other).find("200 is unknown"), std::string::npos);
  EXPECT_NE(refusal(encode(Ping{})).find("where 7 was expected"), std::string::npos);
}

TEST(TransferMessages, RefusesEveryTruncationAndExcess) {
  const auto good = encode(Have{1, 2, {Hash{}, Hash{}}});
  for (std::size_t size = 0; size < good.size(); ++size) {
    auto shorter = good;
    shorter.resize(size);
    EXPECT_NE(refusal(shorter), "") << size;
  }
  auto longer = good;
  longer.push_back(std::byte{0});
  EXPECT_NE(refusal(longer), "");
}

TEST(TransferMessages, AListLongerThanItsMessageIsRefused) {
  auto lies = encode(Have{1, 2, {Hash{}}});
  lies[12 + 16] = std::byte{0xff};  // the number of hashes
  EXPECT_NE(refusal(lies).find("where 1044496 more are needed"), std::string::npos)
      << refusal(lies);
}

/// Whatever comes is refused or understood; the sanitizers watch.
TEST(TransferMessages, SurvivesDamagedMessages) {
  std::mt19937 dice{7};
  const std::vector<std::vector<std::byte>> originals{
      encode(Entry{.path = "name", .target = "target"}), encode(Have{1, 2, {Hash{}, Hash{}}}),
      encode(Verdict{1, 1, "note"}), encode(Result{1, 1, "text"})};
  for (int i = 0; i < 20000; ++i) {
    auto message = originals[dice() % originals.size()];
    for (auto flips = dice() % 4 + 1; flips > 0; --flips) {
      message[dice() % message.size()] = static_cast<std::byte>(dice());
    }
    message.resize(message.size() - dice() % 3);
    try {
      switch (type_of(message)) {
        case MessageType::entry:
          static_cast<void>(decode<Entry>(message));
          break;
        case MessageType::have:
          static_cast<void>(decode<Have>(message));
          break;
        case MessageType::verdict:
          static_cast<void>(decode<Verdict>(message));
          break;
        default:
          static_cast<void>(decode<Result>(message));
      }
    } catch (const Malformed&) {
    }
  }
}

TEST(TransferMessages, FixedPartsHaveTheSizesThatTheSlotsRelyOn) {
  EXPECT_EQ(encode_fixed(ChunkHeader{}).size(), ChunkHeader::kSize);
  EXPECT_EQ(encode_fixed(QueuePairRequest{}).size(), QueuePairRequest::kSize);
  EXPECT_EQ(encode_fixed(SlotMemory{}).size(), SlotMemory::kSize);
  EXPECT_THROW(static_cast<void>(decode_fixed<SlotMemory>(std::vector<std::byte>(19))), Malformed);
}

}  // namespace
}  // namespace verbena::transfer
