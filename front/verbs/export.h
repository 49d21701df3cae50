#pragma once

/// Before each function of the C ABI: everything else of the library is hidden. The version
/// script (front/preload/libibverbs.map) says under which version it is seen.
#define VERBENA_EXPORT extern "C" __attribute__((visibility("default")))
