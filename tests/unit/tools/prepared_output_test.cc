#include "tools/verbena/prepared_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace verbena::tool {
namespace {

using testing::HasSubstr;

struct PrepareOutput : testing::Test {
  PrepareOutput() {
    std::string name = std::filesystem::temp_directory_path() / "output-test.XXXXXX";
    folder = ::mkdtemp(name.data());
    std::ofstream{folder / "old"} << "yesterday's";
  }
  ~PrepareOutput() override { std::filesystem::remove_all(folder); }

  std::filesystem::path folder;
};

TEST_F(PrepareOutput, MakesAnEmptyFileAndAnAbsoluteName) {
  const PreparedOutput made = prepare_output(folder / "new", EarlierContent::discarded);
  EXPECT_EQ(made.problem, "");
  EXPECT_EQ(made.path, folder / "new");
  EXPECT_TRUE(std::filesystem::is_regular_file(made.path));
  EXPECT_TRUE(std::filesystem::path{prepare_output("/dev/../dev/null", EarlierContent::kept).path}
                  .is_absolute());
}

TEST_F(PrepareOutput, EmptiesWhatNobodyWritesTo) {
  EXPECT_EQ(prepare_output(folder / "old", EarlierContent::discarded).problem, "");
  EXPECT_EQ(std::filesystem::file_size(folder / "old"), 0u);
}

TEST_F(PrepareOutput, KeepsWhatEarlierProgramsWrote) {
  EXPECT_EQ(prepare_output(folder / "old", EarlierContent::kept).problem, "");
  EXPECT_GT(std::filesystem::file_size(folder / "old"), 0u);
}

TEST_F(PrepareOutput, KeepsWhatAProgramStillWritesTo) {
  const int writer = ::open((folder / "old").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);
  EXPECT_EQ(prepare_output(folder / "old", EarlierContent::discarded).problem, "");
  EXPECT_GT(std::filesystem::file_size(folder / "old"), 0u);
  ::close(writer);
}

TEST_F(PrepareOutput, KeepsATraceAsLongAsOneOfItsWritersRuns) {
  const int first = ::open((folder / "old").c_str(), O_WRONLY | O_CLOEXEC);
  const int second = ::open((folder / "old").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(first, LOCK_SH), 0);
  ASSERT_EQ(::flock(second, LOCK_SH), 0);
  ::close(first);
  EXPECT_EQ(prepare_output(folder / "old", EarlierContent::discarded).problem, "");
  EXPECT_GT(std::filesystem::file_size(folder / "old"), 0u);
  ::close(second);
  EXPECT_EQ(prepare_output(folder / "old", EarlierContent::discarded).problem, "");
  EXPECT_EQ(std::filesystem::file_size(folder / "old"), 0u);
}

TEST_F(PrepareOutput, SaysWhyItCant) {
  EXPECT_THAT(prepare_output(folder / "no/such", EarlierContent::kept).problem,
              HasSubstr("No such file or directory"));
  EXPECT_THAT(prepare_output(folder, EarlierContent::kept).problem, HasSubstr("Is a directory"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(prepare_output(folder / "pipe", EarlierContent::kept).problem, "");
}

}  // namespace
}  // namespace verbena::tool
