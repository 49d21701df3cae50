#include "tools/verbena/preload.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace verbena::tool {
namespace {

constexpr std::string_view kAsanOption = "verify_asan_link_order=0";
constexpr std::string_view kSeparators = " :";  // of LD_PRELOAD, see ld.so(8)

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
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
  PreloadLibrary library{folder, folder / "libibverbs.so.1", ""};
  const auto bare = folder / "bare" / "libibverbs.so.1";
  if (exists(bare, error) && !system_has_rdma_core()) library.path = bare;
  if (access(library.path.c_str(), R_OK) != 0) {
    library.problem = fmt::format("the preload library {}: {}; build or install Verbena again",
                                  library.path, std::strerror(errno));
  } else if (library.path.find_first_of(kSeparators) != std::string::npos) {
    library.problem = fmt::format(
        "the preload library \"{}\": LD_PRELOAD can't hold a path with a space or a colon; "
        "install Verbena elsewhere",
        library.path);
  }
  return library;
}

std::string with_preload(std::string_view library, std::string_view before) {
  std::string result{library};
  while (!before.empty()) {
    const auto end = before.find_first_of(kSeparators);
    const auto entry = before.substr(0, end);
    if (!entry.empty() && entry != library) result.append(":").append(entry);
    before = end == std::string_view::npos ? "" : before.substr(end + 1);
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
}

bool is_preloaded(const std::string& library) {
  const auto value = variable("LD_PRELOAD");
  return value.substr(0, value.find_first_of(kSeparators)) == library;
}

}  // namespace verbena::tool
