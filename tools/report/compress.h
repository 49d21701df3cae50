#pragma once

// Bytes made smaller, in the block format of LZ4: the page of a report undoes it in thirty lines of
// its own, and nothing else has to be installed.

#include <cstdint>
#include <span>
#include <string>

namespace verbena::report {

/// At most 2^31 bytes. The format doesn't say how long the bytes were: the caller keeps that.
[[nodiscard]] std::string compress(std::span<const std::uint8_t> bytes);

[[nodiscard]] std::string base64(std::string_view bytes);

}  // namespace verbena::report
