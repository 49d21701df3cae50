// A file that arrives in pieces, is broken off, and goes on.

#include "tools/transfer/part_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/folder.h"

namespace verbena::transfer {
namespace {

constexpr std::uint32_t kChunk = 4096;

std::vector<std::byte> bytes_with(std::uint8_t byte, std::size_t size = kChunk) {
  return std::vector<std::byte>(size, std::byte{byte});
}

class TransferPartFile : public testing::Test {
 protected:
  Entry entry_of(std::uint64_t size) const {
    return {.id = 1,
            .kind = static_cast<std::uint8_t>(Kind::file),
            .mode = 0640,
            .seconds = 1000,
            .nanoseconds = 5,
            .size = size,
            .device = 1,
            .inode = 2,
            .path = "file"};
  }
  static void store(PartFile& part, std::uint64_t chunk, std::uint8_t byte) {
    const auto bytes = bytes_with(byte, part.chunks().length(chunk));
    part.store(chunk, bytes, hash_of(bytes));
  }
  static Hash root(const PartFile& part) { return root_of(part.chunks(), part.hashes()); }
  std::string content() const {
    std::ifstream file{temporary_.path() / "file", std::ios::binary};
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  bool hidden_is_empty() {
    folder_.remove_hidden_if_empty();
    return !std::filesystem::exists(temporary_.path() / ".verbena-receive");
  }

  test::Folder temporary_;
  Folder folder_{temporary_.path().string()};
};

TEST_F(TransferPartFile, GetsItsNameWithModeAndTimeWhenItIsWhole) {
  PartFile part{folder_, entry_of(kChunk + 10), kChunk};
  store(part, 1, 'b');
  EXPECT_NE(part.problem_with(root(part)).find("1 of 2 chunks are missing"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(temporary_.path() / "file"));
  store(part, 0, 'a');
  EXPECT_NE(part.problem_with(Hash{}), "");
  ASSERT_EQ(part.problem_with(root(part)), "");
  part.place(folder_.place_of("file"), false, true);
  EXPECT_EQ(content(), std::string(kChunk, 'a') + std::string(10, 'b'));
  struct stat status {};
  ASSERT_EQ(stat((temporary_.path() / "file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_EQ(status.st_mtim.tv_sec, 1000);
  EXPECT_EQ(status.st_mtim.tv_nsec, 5);
  EXPECT_TRUE(hidden_is_empty());
}

TEST_F(TransferPartFile, GoesOnWithTheChunksThatWereThere) {
  {
    PartFile first{folder_, entry_of(3 * kChunk), kChunk};
    store(first, 1, 'x');
  }
  PartFile second{folder_, entry_of(3 * kChunk), kChunk};
  EXPECT_EQ(second.note(), "continues with 1 of 3 chunks");
  EXPECT_EQ(second.hashes()[1], hash_of(bytes_with('x')));
  EXPECT_EQ(second.hashes()[0], Hash{});
  store(second, 0, 'a');
  store(second, 2, 'b');
  ASSERT_EQ(second.problem_with(root(second)), "");
  second.place(folder_.place_of("file"), false, false);
  EXPECT_EQ(content().substr(kChunk, kChunk), std::string(kChunk, 'x'));
  EXPECT_TRUE(hidden_is_empty());
}

TEST_F(TransferPartFile, BeginsAnewIfTheSourceHasChanged) {
  {
    PartFile first{folder_, entry_of(3 * kChunk), kChunk};
    store(first, 1, 'x');
  }
  Entry changed = entry_of(3 * kChunk);
  changed.nanoseconds = 6;
  const PartFile second{folder_, changed, kChunk};
  EXPECT_NE(second.note().find("has changed"), std::string::npos);
  EXPECT_FALSE(second.has_any());
}

TEST_F(TransferPartFile, AnotherSizeOfChunksBeginsAnew) {
  {
    PartFile first{folder_, entry_of(3 * kChunk), kChunk};
    store(first, 1, 'x');
  }
  const PartFile second{folder_, entry_of(3 * kChunk), 2 * kChunk};
  EXPECT_FALSE(second.has_any());
}

TEST_F(TransferPartFile, ClaimsOfAnEarlierBootAreVerified) {
  {
    PartFile first{folder_, entry_of(3 * kChunk), kChunk};
    store(first, 0, 'x');
    store(first, 1, 'y');
  }
  for (const auto& file :
       std::filesystem::directory_iterator{temporary_.path() / ".verbena-receive"}) {
    if (file.path().extension() == ".journal") {  // as if the system had fallen meanwhile
      JournalHeader header{.size = 3 * kChunk,
                           .chunk_size = kChunk,
                           .seconds = 1000,
                           .nanoseconds = 5,
                           .device = 1,
                           .inode = 2,
                           .path = "file",
                           .boot = "another boot"};
      std::ofstream out{file.path(), std::ios::binary};
      for (const auto& piece :
           {encode_journal_header(header), encode_journal_record(0, hash_of(bytes_with('x'))),
            encode_journal_record(1, hash_of(bytes_with('?')))}) {
        out.write(reinterpret_cast<const char*>(piece.data()),
                  static_cast<std::streamsize>(piece.size()));
      }
    }
  }
  const PartFile second{folder_, entry_of(3 * kChunk), kChunk};
  EXPECT_EQ(second.note(), "continues with 1 of 3 chunks");
  EXPECT_EQ(second.hashes()[1], Hash{});
}

TEST_F(TransferPartFile, AChunkMayBeReplaced) {
  PartFile part{folder_, entry_of(2 * kChunk), kChunk};
  store(part, 0, 'a');
  store(part, 1, 'b');
  store(part, 0, 'c');
  EXPECT_EQ(part.hashes()[0], hash_of(bytes_with('c')));
  part.place(folder_.place_of("file"), false, false);
  EXPECT_EQ(content().substr(0, kChunk), std::string(kChunk, 'c'));
}

TEST_F(TransferPartFile, RefusesChunksThatTheFileDoesNotHave) {
  PartFile part{folder_, entry_of(kChunk + 1), kChunk};
  const auto bytes = bytes_with('a');
  EXPECT_THROW(part.store(2, bytes, hash_of(bytes)), Malformed);
  EXPECT_THROW(part.store(~0ull, bytes, hash_of(bytes)), Malformed);
  EXPECT_THROW(part.store(1, bytes, hash_of(bytes)), Malformed);  // it has one byte
  EXPECT_THROW(part.store_holes(1, 2), Malformed);
  EXPECT_THROW(part.store_holes(~0ull, 2), Malformed);
  EXPECT_THROW(part.store_holes(1, ~0ull), Malformed);
}

TEST_F(TransferPartFile, RefusesFilesOfTooManyChunks) {
  EXPECT_THROW((PartFile{folder_, entry_of(1ull << 60), kChunk}), std::system_error);
}

TEST_F(TransferPartFile, HolesStayHolesAndAreNeverOldBytes) {
  Entry entry = entry_of(64 * kChunk);
  entry.sparse = 1;
  {
    PartFile first{folder_, entry, 16 * kChunk};
    store(first, 1, 'x');
  }
  PartFile part{folder_, entry, 16 * kChunk};
  part.store_holes(1, 3);  // what was data in the broken run
  auto mixed = bytes_with(0, 16 * kChunk);
  mixed[8 * kChunk] = std::byte{'m'};
  part.store(0, mixed, hash_of(mixed));
  ASSERT_EQ(part.problem_with(root(part)), "");
  part.place(folder_.place_of("file"), false, false);
  std::string wanted(64 * kChunk, '\0');
  wanted[8 * kChunk] = 'm';
  EXPECT_EQ(content(), wanted);
  struct stat status {};
  ASSERT_EQ(stat((temporary_.path() / "file").c_str(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 8 * kChunk);
}

TEST_F(TransferPartFile, WhatIsThereIsReplacedOnlyOnPurpose) {
  std::ofstream{temporary_.path() / "file"} << "old";
  PartFile part{folder_, entry_of(kChunk), kChunk};
  store(part, 0, 'n');
  EXPECT_THROW(part.place(folder_.place_of("file"), false, false), std::system_error);
  EXPECT_EQ(content(), "old");
  part.place(folder_.place_of("file"), true, false);
  EXPECT_EQ(content(), std::string(kChunk, 'n'));
}

TEST_F(TransferPartFile, LinksInTheFolderLeadNowhere) {
  std::filesystem::create_directory_symlink("/", temporary_.path() / "out");
  std::filesystem::create_directory(temporary_.path() / "in");
  EXPECT_THROW(static_cast<void>(folder_.place_of("out/tmp/x")), std::system_error);
  EXPECT_THROW(static_cast<void>(folder_.place_of("in/../x")), Malformed);
  EXPECT_NO_THROW(static_cast<void>(folder_.place_of("in/x")));
  EXPECT_EQ(folder_.place_of("out").name, "out");  // the link itself may be replaced
}

TEST_F(TransferPartFile, ASecondReceiverIsTurnedAway) {
  EXPECT_THROW(Folder{temporary_.path().string()}, std::runtime_error);
}

}  // namespace
}  // namespace verbena::transfer
