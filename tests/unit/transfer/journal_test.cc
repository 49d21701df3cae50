// The journal after the death of its writer: it claims what was recorded whole, and nothing else.

#include "tools/transfer/journal.h"

#include <gtest/gtest.h>

namespace verbena::transfer {
namespace {

const JournalHeader kHeader{.size = 1 << 20,
                            .chunk_size = 4096,
                            .seconds = 5,
                            .nanoseconds = 6,
                            .device = 7,
                            .inode = 8,
                            .path = "some/file",
                            .boot = "boot"};

Hash hash_with(std::uint8_t byte) {
  Hash hash;
  hash.fill(byte);
  return hash;
}

void append(std::vector<std::byte>& bytes, const std::vector<std::byte>& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

std::vector<std::byte> three_chunks() {
  auto bytes = encode_journal_header(kHeader);
  for (std::uint8_t chunk = 0; chunk < 3; ++chunk) {
    append(bytes, encode_journal_record(chunk, hash_with(chunk)));
  }
  return bytes;
}

TEST(TransferJournal, GivesBackWhatWasRecorded) {
  const auto journal = read_journal(three_chunks());
  ASSERT_TRUE(journal);
  EXPECT_TRUE(journal->header.same_source(kHeader));
  EXPECT_EQ(journal->header.path, kHeader.path);
  EXPECT_EQ(journal->header.boot, kHeader.boot);
  EXPECT_EQ(journal->chunks.size(), 3u);
  EXPECT_EQ(journal->chunks.at(2), hash_with(2));
  EXPECT_EQ(journal->valid_size, three_chunks().size());
}

TEST(TransferJournal, AChunkThatWasStruckOutIsGone) {
  auto bytes = three_chunks();
  append(bytes, encode_journal_record(1, std::nullopt));
  EXPECT_FALSE(read_journal(bytes)->chunks.contains(1));
  append(bytes, encode_journal_record(1, hash_with(9)));
  EXPECT_EQ(read_journal(bytes)->chunks.at(1), hash_with(9));
}

TEST(TransferJournal, ATornEndIsLeftOut) {
  const auto whole = three_chunks();
  const std::size_t header = encode_journal_header(kHeader).size();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto journal = read_journal(std::span{whole}.first(size));
    ASSERT_EQ(journal.has_value(), size >= header) << size;
    if (!journal) continue;
    EXPECT_EQ(journal->chunks.size(), (size - header) / kJournalRecordSize) << size;
    EXPECT_EQ(journal->valid_size, header + journal->chunks.size() * kJournalRecordSize);
  }
}

TEST(TransferJournal, ADamagedByteEndsWhatIsClaimed) {
  const auto whole = three_chunks();
  const std::size_t header = encode_journal_header(kHeader).size();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    auto damaged = whole;
    damaged[at] ^= std::byte{0x10};
    const auto journal = read_journal(damaged);
    if (at < header) {
      EXPECT_FALSE(journal) << at;
    } else {
      ASSERT_TRUE(journal);
      EXPECT_EQ(journal->chunks.size(), (at - header) / kJournalRecordSize) << at;
    }
  }
}

TEST(TransferJournal, AnotherSourceIsSeen) {
  for (const auto change :
       {+[](JournalHeader& h) { h.size += 1; }, +[](JournalHeader& h) { h.seconds += 1; },
        +[](JournalHeader& h) { h.nanoseconds += 1; }, +[](JournalHeader& h) { h.device += 1; },
        +[](JournalHeader& h) { h.inode += 1; }}) {
    JournalHeader other = kHeader;
    change(other);
    EXPECT_FALSE(other.same_source(kHeader));
  }
}

}  // namespace
}  // namespace verbena::transfer
