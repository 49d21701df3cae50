// The functions of folders that we stand before: those that hold our devices show ours and the
// kernel's. Everything else passes through.

#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "front/preload/appearance.h"
#include "front/preload/next.h"
#include "front/sysfs/tree.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/nic.h"

using namespace verbena::front;
using sysfs::Follow;
using sysfs::Node;

namespace {

static_assert(sizeof(dirent) == sizeof(dirent64));

/// What opendir() gives for a folder of ours: the program knows only its address.
struct Listing {
  std::vector<dirent> entries;
  std::size_t next = 0;
};

/// Programs read many folders and hardly ever one of ours: nothing is locked then.
std::atomic<unsigned> open_listings{0};

/// Under lock_lists(). Never destroyed.
std::vector<std::unique_ptr<Listing>>& listings() {
  static auto& all = *new std::vector<std::unique_ptr<Listing>>;
  return all;
}

Listing* find_listing(const DIR* folder) {
  if (open_listings.load(std::memory_order_relaxed) == 0) return nullptr;
  const auto lock = lock_lists();
  for (const auto& listing : listings()) {
    if (static_cast<const void*>(listing.get()) == folder) return listing.get();
  }
  return nullptr;
}

void append(Listing& listing, std::string_view name, unsigned char type) {
  if (name.size() >= sizeof(dirent::d_name)) return;
  dirent entry{};
  entry.d_ino = listing.entries.size() + 1;
  entry.d_off = static_cast<off_t>(listing.entries.size() + 1);
  entry.d_reclen = sizeof entry;
  entry.d_type = type;
  std::ranges::copy(name, entry.d_name);
  listing.entries.push_back(entry);
}

/// The kernel's entries first. It has no such folder where it has no RDMA.
void append_kernels(Listing& listing, const std::string& path) {
  DIR* const real = next::get<"opendir", decltype(opendir)>()(path.c_str());
  if (real == nullptr) return;
  while (const dirent* entry = next::get<"readdir", decltype(readdir)>()(real)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      append(listing, entry->d_name, entry->d_type);
    }
  }
  next::get<"closedir", decltype(closedir)>()(real);
}

bool has(const Listing& listing, const std::string& name) {
  return std::ranges::any_of(listing.entries, [&](const dirent& e) { return e.d_name == name; });
}

std::unique_ptr<Listing> list(const Node& node) {
  auto listing = std::make_unique<Listing>();
  append(*listing, ".", DT_DIR);
  append(*listing, "..", DT_DIR);
  append_kernels(*listing, node.path);
  for (const std::string& name : node.entries) {
    if (has(*listing, name)) continue;
    const Node entry = sysfs::find(node.path + "/" + name, Follow::no);
    const bool real = entry.kind == Node::Kind::kernels;
    const auto type = static_cast<unsigned char>(IFTODT(appearance_of(entry).mode));
    append(*listing, name, real ? static_cast<unsigned char>(DT_UNKNOWN) : type);
  }
  return listing;
}

/// nullptr and errno ENOENT, ENOTDIR; or a path to ask the kernel for.
std::unique_ptr<Listing> list_path(const char* path, std::string& kernels) {
  const Node node = sysfs::find(path, Follow::yes);
  if (node.kind == Node::Kind::folder) return list(node);
  if (node.kind == Node::Kind::kernels) kernels = node.path;
  errno = node.kind == Node::Kind::missing ? ENOENT : ENOTDIR;
  return nullptr;
}

DIR* keep(std::unique_ptr<Listing> listing) {
  const auto lock = lock_lists();
  listings().push_back(std::move(listing));
  open_listings.fetch_add(1, std::memory_order_relaxed);
  return reinterpret_cast<DIR*>(listings().back().get());
}

void forget(const Listing* listing) {
  const auto lock = lock_lists();
  std::erase_if(listings(), [&](const auto& l) { return l.get() == listing; });
  open_listings.fetch_sub(1, std::memory_order_relaxed);
}

using Filter = int (*)(const dirent*);
using Order = int (*)(const dirent**, const dirent**);

/// As scandir(3): an array, and each of its entries, for free().
int hand_out(const std::vector<dirent>& entries, dirent*** to, Filter filter, Order order) {
  auto** const array = static_cast<dirent**>(std::calloc(entries.size() + 1, sizeof(dirent*)));
  if (array == nullptr) return -1;
  std::size_t count = 0;
  for (const dirent& entry : entries) {
    if (filter != nullptr && filter(&entry) == 0) continue;
    auto* const copy = static_cast<dirent*>(std::malloc(sizeof entry));
    if (copy == nullptr) {
      while (count > 0) std::free(array[--count]);
      std::free(array);
      errno = ENOMEM;
      return -1;
    }
    *copy = entry;
    array[count++] = copy;
  }
  if (order != nullptr) {
    std::sort(array, array + count,
              [order](const dirent* a, const dirent* b) { return order(&a, &b) < 0; });
  }
  *to = array;
  return static_cast<int>(count);
}

}  // namespace

VERBENA_EXPORT DIR* opendir(const char* path) {
  const auto real = [](const char* p) { return next::get<"opendir", decltype(opendir)>()(p); };
  if (!sysfs::may_be_ours(path)) return real(path);
  const NoCancellation shield;
  try {
    std::string kernels;
    if (auto listing = list_path(path, kernels)) return keep(std::move(listing));
    return kernels.empty() ? nullptr : real(kernels.c_str());
  } catch (...) {
    report_exception("opendir");
    return nullptr;
  }
}

VERBENA_EXPORT dirent* readdir(DIR* folder) {
  Listing* const ours = find_listing(folder);
  if (ours == nullptr) return next::get<"readdir", decltype(readdir)>()(folder);
  return ours->next < ours->entries.size() ? &ours->entries[ours->next++] : nullptr;
}
VERBENA_EXPORT dirent64* readdir64(DIR* folder) {
  return reinterpret_cast<dirent64*>(readdir(folder));
}

VERBENA_EXPORT int closedir(DIR* folder) {
  const Listing* const ours = find_listing(folder);
  if (ours == nullptr) return next::get<"closedir", decltype(closedir)>()(folder);
  forget(ours);
  return 0;
}

VERBENA_EXPORT void rewinddir(DIR* folder) noexcept {
  if (Listing* const ours = find_listing(folder)) {
    ours->next = 0;
  } else {
    next::get<"rewinddir", decltype(rewinddir)>()(folder);
  }
}

VERBENA_EXPORT void seekdir(DIR* folder, long position) noexcept {
  if (Listing* const ours = find_listing(folder)) {
    ours->next = std::min(static_cast<std::size_t>(std::max(position, 0l)), ours->entries.size());
  } else {
    next::get<"seekdir", decltype(seekdir)>()(folder, position);
  }
}

VERBENA_EXPORT long telldir(DIR* folder) noexcept {
  if (const Listing* const ours = find_listing(folder)) return static_cast<long>(ours->next);
  return next::get<"telldir", decltype(telldir)>()(folder);
}

VERBENA_EXPORT int dirfd(DIR* folder) noexcept {
  if (find_listing(folder) == nullptr) return next::get<"dirfd", decltype(dirfd)>()(folder);
  errno = ENOTSUP;  // there is no descriptor behind it
  return -1;
}

VERBENA_EXPORT int scandir(const char* path, dirent*** to, Filter filter, Order order) {
  const auto real = [&](const char* p) {
    return next::get<"scandir", decltype(scandir)>()(p, to, filter, order);
  };
  if (!sysfs::may_be_ours(path)) return real(path);
  const NoCancellation shield;
  try {
    std::string kernels;
    if (const auto listing = list_path(path, kernels)) {
      return hand_out(listing->entries, to, filter, order);
    }
    return kernels.empty() ? -1 : real(kernels.c_str());
  } catch (...) {
    report_exception("scandir");
    return -1;
  }
}
VERBENA_EXPORT int scandir64(const char* path, dirent64*** to, int (*filter)(const dirent64*),
                             int (*order)(const dirent64**, const dirent64**)) {
  return scandir(path, reinterpret_cast<dirent***>(to), reinterpret_cast<Filter>(filter),
                 reinterpret_cast<Order>(order));
}

// libc's own, but with the functions above.
VERBENA_EXPORT int glob(const char* pattern, int flags, int (*failed)(const char*, int),
                        glob_t* found) {
  const auto real = next::get<"glob", decltype(glob)>();
  if (!sysfs::may_be_ours(pattern) || (flags & GLOB_ALTDIRFUNC) != 0) {
    return real(pattern, flags, failed, found);
  }
  found->gl_opendir = [](const char* path) -> void* { return opendir(path); };
  found->gl_readdir = [](void* folder) { return readdir(static_cast<DIR*>(folder)); };
  found->gl_closedir = [](void* folder) { closedir(static_cast<DIR*>(folder)); };
  found->gl_stat = [](const char* path, struct stat* s) { return stat(path, s); };
  found->gl_lstat = [](const char* path, struct stat* s) { return lstat(path, s); };
  return real(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
}
VERBENA_EXPORT int glob64(const char* pattern, int flags, int (*failed)(const char*, int),
                          glob64_t* found) {
  return glob(pattern, flags, failed, reinterpret_cast<glob_t*>(found));
}
