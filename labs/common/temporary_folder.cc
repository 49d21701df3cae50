#include "labs/common/temporary_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "labs/common/lab.h"

namespace lab {
namespace {

std::array<char, 4096> registered{};  // its path, for the handlers
std::atomic<pid_t> owner{0};          // 0: none; a child that was forked isn't the owner
constexpr int kDeepest = 4;           // folders within folders
static_assert(std::atomic<pid_t>::is_always_lock_free);

/// As the kernel lays out what getdents64(2) gives.
struct Entry {
  std::uint64_t inode;
  std::int64_t next;
  std::uint16_t length;
  std::uint8_t type;
  char name[1];
};

/// With nothing but what signal-safety(7) allows: no memory, no stdio, no opendir.
void remove_tree(int parent, const char* name, int depth) noexcept {
  if (depth == 0) return;
  const int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  alignas(Entry) char room[4096];
  for (long got = 0; (got = syscall(SYS_getdents64, folder, room, sizeof room)) > 0;) {
    for (long at = 0; at < got;) {
      const auto* const entry = reinterpret_cast<const Entry*>(room + at);
      at += entry->length;
      if (std::strcmp(entry->name, ".") == 0 || std::strcmp(entry->name, "..") == 0) continue;
      if (entry->type == DT_DIR) {
        remove_tree(folder, entry->name, depth - 1);
      } else {
        unlinkat(folder, entry->name, 0);
      }
    }
  }
  close(folder);
  unlinkat(parent, name, AT_REMOVEDIR);
}

void end_by(int number) {
  remove_temporary_folder();
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

void remove_temporary_folder() noexcept {
  if (owner.load() == getpid()) remove_tree(AT_FDCWD, registered.data(), kDeepest);
}

TemporaryFolder::TemporaryFolder() {
  check(owner.load() != getpid(), "a second temporary folder");
  std::string name = (std::filesystem::temp_directory_path() / "verbena-lab-XXXXXX").string();
  check(name.size() < registered.size(), "{}: too long", name);
  check(mkdtemp(name.data()) != nullptr, "mkdtemp {}: {}", name, std::strerror(errno));
  path_ = name;
  std::memcpy(registered.data(), name.c_str(), name.size() + 1);
  owner = getpid();
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) signal(number, end_by);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // nothing depends on it any more
  std::filesystem::remove_all(path_, ignored);
  owner = 0;  // a signal until then removes the rest
}

}  // namespace lab
