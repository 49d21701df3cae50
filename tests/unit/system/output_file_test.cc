#include "system/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/support/folder.h"

namespace verbena::test {
namespace {

using testing::HasSubstr;

std::string contents(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
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

}  // namespace
}  // namespace verbena::test
