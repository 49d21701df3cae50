#pragma once

// The receiver's secret: nobody else can know or compute it before it is told.

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "labs/common/lab.h"
#include "labs/file/wire.h"

/// A fresh one each time, from the kernel.
[[nodiscard]] inline wire::Hash make_secret() {
  wire::Hash secret{};
  ssize_t count = 0;
  do {
    count = getrandom(secret.data(), secret.size(), 0);
  } while (count < 0 && errno == EINTR);
  lab::check(count == static_cast<ssize_t>(secret.size()), "getrandom: {} of {} bytes: {}", count,
             secret.size(), std::strerror(errno));
  return secret;
}
