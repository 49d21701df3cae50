// Processes and folders that end with a lab.

#include "labs/common/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <stdexcept>

#include "labs/common/temporary_folder.h"

namespace {

using namespace std::chrono_literals;

TEST(Process, ItsStatusIsWhatTheWorkReturns) {
  lab::Process child{[] { return 3; }};
  EXPECT_EQ(child.wait(), 3);
  EXPECT_EQ(lab::signal_in(3), "");
}

TEST(Process, WhatTheWorkThrowsEndsTheChildOnly) {
  const pid_t test = getpid();
  lab::Process child{[]() -> int { throw std::runtime_error{"on purpose"}; }};
  if (getpid() != test) _exit(9);  // a child that came back
  EXPECT_EQ(child.wait(), 1);
}

TEST(Process, ASignalIsSaidByName) {
  lab::Process child{[] { return pause(); }};
  EXPECT_FALSE(child.ended_within(1ms));
  child.end();
  EXPECT_TRUE(child.ended_within(10s));
  EXPECT_EQ(lab::signal_in(child.wait()), strsignal(SIGTERM));
}

TEST(Process, WhoeverEndsFirstIsFound) {
  std::vector<lab::Process> children;
  children.emplace_back([] { return pause(); });
  children.emplace_back([] { return 0; });
  EXPECT_EQ(lab::Process::wait_for_any(children), 1u);
}  // the first is killed

/// The path that the child, which has such a folder with a file and a folder in it, prints.
std::string folder_of_a_child(int ended_by) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  lab::Process child{[&] {
    const lab::TemporaryFolder folder;
    std::filesystem::create_directory(folder.path() / "inner");
    std::ofstream{folder.path() / "inner" / "file"} << "x";
    std::ofstream{folder.path() / ".hidden"} << "x";
    const std::string path = folder.path().string();
    if (write(ends[1], path.data(), path.size()) < 0) return 1;
    if (ended_by == 0) return 0;
    raise(ended_by);
    return 1;
  }};
  char room[4096] = "";
  EXPECT_GT(read(ends[0], room, sizeof room - 1), 0);
  const int status = child.wait();
  EXPECT_EQ(ended_by == 0 ? "" : strsignal(ended_by), lab::signal_in(status));
  close(ends[0]);
  close(ends[1]);
  return room;
}

class Ending : public testing::TestWithParam<int> {};

TEST_P(Ending, LeavesNoTemporaryFolder) {
  const std::string path = folder_of_a_child(GetParam());
  EXPECT_NE(path.find("verbena-lab-"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path)) << path;
}

INSTANTIATE_TEST_SUITE_P(TemporaryFolder, Ending, testing::Values(0, SIGTERM, SIGINT, SIGHUP));

}  // namespace
