#pragma once

// rtnetlink's descriptors: asking for all interfaces, and being told what changes.

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"
#include "host/devices/link_table.h"
#include "system/fd.h"

namespace verbena::host {

/// All interfaces and their addresses, now.
[[nodiscard]] Result<LinkTable> ask_for_links();

/// Is told of every change of a link or an address from now on. Doesn't block.
class LinkNews {
 public:
  /// More than the kernel puts into one datagram; too much for a small stack.
  using Buffer = std::array<std::uint8_t, 65'536>;

  static Result<LinkNews> subscribe();

  [[nodiscard]] int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }

  enum class Outcome {
    nothing,   // was told
    complete,  // everything that was told is in the table
    overrun,   // more than the socket holds: all that waited is thrown away, ask again
  };
  /// Puts what was told meanwhile into the table.
  [[nodiscard]] Outcome read(LinkTable& into);

 private:
  LinkNews(Fd fd, std::unique_ptr<Buffer> buffer)
      : fd_{std::move(fd)}, buffer_{std::move(buffer)} {}

  Fd fd_;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace verbena::host
