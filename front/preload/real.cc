#include "front/preload/real.h"

#include <dlfcn.h>

#include "host/log.h"

namespace verbena::front::real {

namespace {
void* library() {
  // Loaded already, as a DT_NEEDED of ours; its path is the one that we were linked with.
  static void* const handle = dlopen(VERBENA_REAL_LIBIBVERBS, RTLD_LAZY | RTLD_LOCAL);
  return handle;
}
}  // namespace

void* symbol(const char* name, const char* version, Absence absence) {
  void* const found = library() != nullptr ? dlvsym(library(), name, version) : nullptr;
  if (found == nullptr && absence == Absence::logged) {
    host::log(host::LogLevel::warn, "{}: {} doesn't have it at version {}", name,
              VERBENA_REAL_LIBIBVERBS, version);
  }
  return found;
}

}  // namespace verbena::front::real
