#include "system/shared_log_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "system/output_file.h"
#include "tests/support/folder.h"

namespace verbena::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string log_of(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// What `f` returns in a process of its own; 0 is well.
template <typename F>
pid_t run(F f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  return child;
}

int status_of(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(SharedLogFile, LinesOfSeveralProcessesStayWhole) {
  const Folder folder;
  const std::string path = folder.file("log");
  constexpr int kProcesses = 4;
  constexpr int kBatches = 200;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(run([&] {
      auto file = SharedLogFile::open(path);
      if (!file) return 1;
      const std::string line(static_cast<std::size_t>(100 + 900 * i), static_cast<char>('a' + i));
      for (int n = 0; n < kBatches; ++n) {
        std::string twice = line + "\n";
        twice += twice;
        if (!file->append(twice)) return 2;
      }
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
  std::istringstream in{log_of(path)};
  std::map<std::string, int> lines;
  for (std::string line; std::getline(in, line);) lines[line] += 1;
  ASSERT_EQ(lines.size(), std::size_t{kProcesses});
  for (const auto& [line, times] : lines) EXPECT_EQ(times, 2 * kBatches) << line.substr(0, 1);
}

TEST(SharedLogFile, WhatIsThereIsKept) {
  const Folder folder;
  const std::string path = folder.file("log");
  std::ofstream{path} << "old\n";
  auto file = SharedLogFile::open(path);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->append("new\n"));
  EXPECT_EQ(log_of(path), "old\nnew\n");
}

TEST(SharedLogFile, NobodyEmptiesItMeanwhile) {
  const Folder folder;
  const std::string path = folder.file("log");
  const auto file = SharedLogFile::open(path);
  ASSERT_TRUE(file);
  const Fd other{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  EXPECT_NE(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(::flock(other.get(), LOCK_SH | LOCK_NB), 0);
}

TEST(SharedLogFile, AFileThatAnotherHasForItselfIsRefused) {
  const Folder folder;
  const std::string path = folder.file("log");
  const auto owner = OutputFile::open(path);
  ASSERT_TRUE(owner);
  const auto file = SharedLogFile::open(path);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, AllOf(HasSubstr(path), HasSubstr("name another file")));
}

TEST(SharedLogFile, ALockOfAMomentIsWaitedFor) {
  const Folder folder;
  const std::string path = folder.file("log");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = run([&] {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (::flock(fd, LOCK_EX) != 0 || ::write(ready[1], "x", 1) != 1) return 1;
    // Until the other has begun to wait, or nearly so: it must succeed either way.
    return ::poll(nullptr, 0, 50);
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(SharedLogFile::open(path));
  EXPECT_EQ(status_of(child), 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(SharedLogFile, APipeOrAFolderIsRefused) {
  const Folder folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const Fd reader{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  const auto pipe = SharedLogFile::open(path);
  ASSERT_FALSE(pipe);
  EXPECT_THAT(pipe.error().message, HasSubstr("not a regular file"));
  EXPECT_FALSE(SharedLogFile::open("/"));
  EXPECT_TRUE(SharedLogFile::open("/dev/null"));
}

TEST(SharedLogFile, BelowALimitOfFileSizesItEndsBeforeTheSignal) {
  const Folder folder;
  const std::string path = folder.file("log");
  const pid_t child = run([&] {
    constexpr rlim_t kLimit = (1u << 20) + 100;
    const rlimit limit{kLimit, kLimit};
    ::signal(SIGXFSZ, SIG_DFL);  // which ends the process
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto file = SharedLogFile::open(path);
    std::string line(60, 'x');
    line.back() = '\n';
    if (!file || !file->append(line)) return 1;
    const auto second = file->append(line);
    if (second || second.error().message.find("File too large") == std::string::npos) return 2;
    return file->append(line) ? 0 : 3;  // quietly
  });
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(log_of(path).size(), 60u);
}

/// Disks that are full: file systems of a few pages, in a namespace of the test's process.
class FullDisk : public testing::Test {
 protected:
  static constexpr int kSkipped = 77;

  static bool tell(const std::string& file, const std::string& what) {
    return static_cast<bool>(std::ofstream{"/proc/self/" + file} << what << std::flush);
  }

  /// In a child: `f(path)` with a file system of two pages behind the path's folder.
  template <typename F>
  void on_a_small_disk(F f) {
    const Folder folder;
    const std::string disk = folder.file("");
    const int status = status_of(run([&] {
      const std::string user = "0 " + std::to_string(::geteuid()) + " 1";
      const std::string group = "0 " + std::to_string(::getegid()) + " 1";
      if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return kSkipped;
      // user_namespaces(7)
      const bool mapped =
          tell("setgroups", "deny") && tell("uid_map", user) && tell("gid_map", group);
      if (!mapped) return kSkipped;
      if (::mount("disk", disk.c_str(), "tmpfs", 0, "size=8k") != 0) return kSkipped;
      f(disk + "log");
      return testing::Test::HasFailure() ? 1 : 0;
    }));
    if (status == kSkipped) GTEST_SKIP() << "no namespace of users and mounts can be made here";
    EXPECT_EQ(status, 0);
  }
};

TEST_F(FullDisk, TheOnlyWriterEndsWithItsLastWholeLine) {
  on_a_small_disk([](const std::string& path) {
    auto file = SharedLogFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    const std::string line(1499, 'x');
    const std::string whole = line + "\n" + line + "\n";
    ASSERT_TRUE(file->append(whole));
    ASSERT_TRUE(file->append(whole));
    const auto full = file->append(whole);  // one line and a part of the next
    ASSERT_FALSE(full);
    EXPECT_THAT(full.error().message, AllOf(HasSubstr(path), HasSubstr("No space left")));
    EXPECT_EQ(log_of(path), whole + whole + line + "\n");
  });
}

TEST_F(FullDisk, LinesBehindAPartOfOneStayWhole) {
  on_a_small_disk([](const std::string& path) {
    auto first = SharedLogFile::open(path);
    auto second = SharedLogFile::open(path);
    ASSERT_TRUE(first && second);
    const std::string line(2999, 'x');
    ASSERT_TRUE(first->append(line + "\n"));
    ASSERT_TRUE(first->append(line + "\n"));
    ASSERT_FALSE(first->append(line + "\n"));  // 2192 bytes find room
    // The second has the file open, so the part is blank now. Room comes back, and it goes on.
    ASSERT_EQ(
        ::mount(nullptr, path.substr(0, path.rfind('/')).c_str(), nullptr, MS_REMOUNT, "size=16k"),
        0);
    ASSERT_TRUE(second->append("second\n"));
    EXPECT_EQ(log_of(path), line + "\n" + line + "\n" + std::string(2192, ' ') + "second\n");
  });
}

}  // namespace
}  // namespace verbena::test
