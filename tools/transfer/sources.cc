#include "tools/transfer/sources.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>

#include "tools/transfer/names.h"

namespace verbena::transfer {
namespace {

/// The name that PATH gets at the receiver: its last part, whatever way of writing it.
std::string name_of(const std::string& path) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.ends_with('/')) trimmed.pop_back();
  std::string name = trimmed.substr(trimmed.rfind('/') + 1);
  if (name == "." || name == "..") {
    const std::unique_ptr<char, decltype(&std::free)> real{realpath(path.c_str(), nullptr),
                                                           std::free};
    if (real == nullptr) throw_errno(printable(path));
    name = std::strrchr(real.get(), '/') + 1;
  }
  if (name.empty())
    throw std::runtime_error{fmt::format("\"{}\" has no name to send", printable(path))};
  return name;
}

std::string link_target(const std::string& file) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = readlink(file.c_str(), target.data(), target.size());
  if (size < 0) throw_errno(printable(file));
  target.resize(static_cast<std::size_t>(size));
  return target;
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

std::vector<std::string> names_in(const std::string& folder) {
  const std::unique_ptr<DIR, CloseFolder> open{opendir(folder.c_str())};
  if (open == nullptr) throw_errno(printable(folder));
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = readdir(open.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) throw_errno(printable(folder));
  std::ranges::sort(names);
  return names;
}

void add(Sources& sources, const std::string& file, const std::string& name) {
  struct stat status {};
  if (lstat(file.c_str(), &status) != 0) throw_errno(printable(file));
  Source source{file, {}};
  source.entry.path = name;
  describe(source.entry, status);
  if (S_ISREG(status.st_mode)) {
    source.entry.kind = static_cast<std::uint8_t>(Kind::file);
    sources.bytes += source.entry.size;
  } else if (S_ISDIR(status.st_mode)) {
    source.entry.kind = static_cast<std::uint8_t>(Kind::directory);
  } else if (S_ISLNK(status.st_mode)) {
    source.entry.kind = static_cast<std::uint8_t>(Kind::link);
    source.entry.target = link_target(file);
  } else {
    throw std::runtime_error{fmt::format(
        "{}: neither a file nor a folder nor a symbolic link: it can't be sent", printable(file))};
  }
  static_cast<void>(components_of(name));  // what the receiver would refuse
  sources.all.push_back(std::move(source));
}

/// With all that is below. A stack of its own: a tree may be deeper than the thread's.
void add_tree(Sources& sources, const std::string& file, const std::string& name) {
  std::vector<std::pair<std::string, std::string>> waiting{{file, name}};
  while (!waiting.empty()) {
    const auto [path, path_there] = std::move(waiting.back());
    waiting.pop_back();
    try {
      add(sources, path, path_there);
      if (static_cast<Kind>(sources.all.back().entry.kind) != Kind::directory) continue;
      auto names = names_in(path);
      for (auto it = names.rbegin(); it != names.rend(); ++it) {
        waiting.emplace_back(path + "/" + *it, path_there + "/" + *it);
      }
    } catch (const std::runtime_error& problem) {
      sources.problems.emplace_back(problem.what());
    }
  }
}

}  // namespace

void describe(Entry& entry, const struct stat& status) {
  constexpr std::uint64_t kUnit = 512;  // of st_blocks
  entry.mode = status.st_mode & 0777;
  entry.seconds = status.st_mtim.tv_sec;
  entry.nanoseconds = static_cast<std::uint32_t>(status.st_mtim.tv_nsec);
  entry.size = S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
  entry.device = status.st_dev;
  entry.inode = status.st_ino;
  entry.sparse = static_cast<std::uint64_t>(status.st_blocks) * kUnit < entry.size ? 1 : 0;
}

Sources find_sources(const std::vector<std::string>& paths) {
  Sources sources;
  std::map<std::string, std::string> names;
  for (const std::string& path : paths) {
    const std::string name = name_of(path);
    const auto [other, fresh] = names.emplace(name, path);
    if (!fresh) {
      throw std::runtime_error{
          fmt::format("{} and {} would both be named \"{}\"; send one of them alone",
                      printable(other->second), printable(path), printable(name))};
    }
    add_tree(sources, path, name);
  }
  return sources;
}

}  // namespace verbena::transfer
