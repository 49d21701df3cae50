#pragma once

// Memory that the library allocates for a program to register (ibv_alloc_buf). To us it is memory
// like any other: any page will do.

#include "base/result.h"
#include "front/verbs/newer_verbs.h"

namespace verbena::front {

/// Whether the program got it from us. Its struct has nothing public that would tell.
[[nodiscard]] bool is_our_buf(const ibv_buf* buf);

/// EINVAL unless the buffer is of that domain and has all of the range. Only of a buffer of ours.
[[nodiscard]] Status check_in_buf(const ibv_buf* buf, const ibv_pd* pd, const void* address,
                                  std::size_t length);

}  // namespace verbena::front
