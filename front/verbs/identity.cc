#include "front/verbs/identity.h"

namespace verbena::front {

constexpr std::string_view kFirmwareVersion = "verbena " VERBENA_VERSION;
static_assert(kFirmwareVersion.size() < 64);

}  // namespace verbena::front
