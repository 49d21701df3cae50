#pragma once

// Where the preload library lies and what a program's environment needs for it.

#include <optional>
#include <string>
#include <string_view>

namespace verbena::tool {

/// The preload library beside this executable: ../lib/verbena/libibverbs.so.1, in an install
/// prefix as in a build tree. The portable archive has a second one, which brings rdma-core along,
/// for machines without it.
struct PreloadLibrary {
  std::string folder;   // lib/verbena
  std::string path;     // as LD_PRELOAD has it
  std::string problem;  // empty: usable
};
[[nodiscard]] PreloadLibrary find_preload_library();

/// `before` is LD_PRELOAD as it is: ours go in front, the others keep their order.
[[nodiscard]] std::string with_preload(std::string_view ours, std::string_view before);

/// `before` is ASAN_OPTIONS as it is. A program built with AddressSanitizer insists on being
/// the first library unless it is told otherwise.
[[nodiscard]] std::string with_asan_option(std::string_view before);

/// Changes this process's environment, for execve.
void set_preload_environment(const std::string& library);

/// Variables of other programs' that a value is right for under Verbena, unless the user set one.
struct ForeignVariable {
  const char* name;
  const char* value;
};
/// NCCL 2.28 crashes on each InfiniBand device that isn't NVIDIA's: docs/nccl.md.
inline constexpr ForeignVariable kNcclWithoutGin{"NCCL_GIN_TYPE", "0"};

/// True for a device of the system's own libraries. An unknown name is not hardware: who opens it
/// names the devices that there are.
[[nodiscard]] bool is_hardware(const std::string& device);

/// True when this process was started with `library` in front.
[[nodiscard]] bool is_preloaded(const std::string& library);

}  // namespace verbena::tool
