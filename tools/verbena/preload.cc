#include "tools/verbena/preload.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

namespace verbena::tool {
namespace {

constexpr std::string_view kAsanOption = "verify_asan_link_order=0";
constexpr std::string_view kSeparators = " :";  // of LD_PRELOAD, see ld.so(8)

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// The entries of a LD_PRELOAD.
std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> entries;
  while (!list.empty()) {
    const auto end = list.find_first_of(kSeparators);
    if (const auto entry = list.substr(0, end); !entry.empty()) entries.push_back(entry);
    list = end == std::string_view::npos ? "" : list.substr(end + 1);
  }
  return entries;
}

/// In a namespace of its own, so that libraries of this process neither help nor stand in the way.
bool system_has_rdma_core() {
  void* const library = dlmopen(LM_ID_NEWLM, "/usr/$LIB/librdmacm.so.1", RTLD_LAZY);
  if (library == nullptr) return false;
  dlclose(library);
  return true;
}

}  // namespace

PreloadLibrary find_preload_library() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {"", "", fmt::format("/proc/self/exe: {}", error.message())};
  const auto folder = self.parent_path().parent_path() / "lib" / "verbena";
  const auto bare = folder / "bare";
  const bool alone = exists(bare, error) && !system_has_rdma_core();
  const std::string file = (alone ? bare : folder) / "libibverbs.so.1";
  PreloadLibrary library{folder, file, ""};
  if (alone) {
    // A program's own libraries come before those that ours needs, but after all that are
    // preloaded.
    library.path.append(":").append(bare / "rdma-core" / "librdmacm.so.1");
  }
  if (access(file.c_str(), R_OK) != 0) {
    library.problem = fmt::format("the preload library {}: {}; build or install Verbena again",
                                  file, std::strerror(errno));
  } else if (file.find_first_of(kSeparators) != std::string::npos ||
             file.find('$') != std::string::npos) {
    library.problem = fmt::format(
        "the preload library \"{}\": LD_PRELOAD can't hold a path with a space, a colon or a "
        "dollar sign; install Verbena elsewhere",
        file);
  }
  return library;
}

std::string with_preload(std::string_view ours, std::string_view before) {
  const auto entries = split(ours);
  std::string result{ours};
  for (const std::string_view entry : split(before)) {
    if (std::ranges::find(entries, entry) == entries.end()) result.append(":").append(entry);
  }
  return result;
}

std::string with_asan_option(std::string_view before) {
  if (before.find(kAsanOption) != std::string_view::npos) return std::string{before};
  return before.empty() ? std::string{kAsanOption} : fmt::format("{}:{}", before, kAsanOption);
}

void set_preload_environment(const std::string& library) {
  setenv("LD_PRELOAD", with_preload(library, variable("LD_PRELOAD")).c_str(), 1);
  setenv("ASAN_OPTIONS", with_asan_option(variable("ASAN_OPTIONS")).c_str(), 1);
  setenv(kNcclWithoutGin.name, kNcclWithoutGin.value, /*overwrite=*/0);
}

bool is_hardware(const std::string& device) {
  std::error_code unknown;
  return !device.empty() && !device.starts_with("vb_") &&
         std::filesystem::exists(std::filesystem::path{"/sys/class/infiniband"} / device, unknown);
}

bool is_preloaded(const std::string& library) {
  const auto value = variable("LD_PRELOAD");
  return !library.empty() && with_preload(library, value) == value;
}

}  // namespace verbena::tool
