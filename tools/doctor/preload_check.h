#pragma once

// Will programs of this shell get our library? LD_PRELOAD, VERBENA_*, and rdma-core beside us.

#include <optional>
#include <string>

#include "tools/doctor/check.h"

namespace verbena::doctor {

/// Our library, beside this program.
[[nodiscard]] Finding check_library();
/// `version`: the library's own. Nothing, if it is this program's or empty.
[[nodiscard]] Findings judge_version(const std::string& version);
/// Each entry of this process's own LD_PRELOAD.
[[nodiscard]] Finding check_preload();
/// VERBENA_*, which are removed from this process's environment: the checks that follow look at the
/// machine.
[[nodiscard]] Finding check_variables();
/// The system's libibverbs and librdmacm.
[[nodiscard]] Finding check_rdma_core();

/// Why the dynamic loader can't preload the file, from its first bytes; nullopt: nothing speaks
/// against it.
[[nodiscard]] std::optional<std::string> reason_not_to_load(const std::string& path);

}  // namespace verbena::doctor
