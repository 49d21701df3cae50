#pragma once

// As much of HTTP/1.1 (RFC 9112) as a scraper needs: GET and HEAD without a body, one request a
// connection.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::top {

inline constexpr std::size_t kMaxRequest = 8192;

/// The answer to what has arrived; nullopt: the request isn't complete. `metrics` makes the page.
[[nodiscard]] std::optional<std::string> answer_to(std::string_view request,
                                                   const std::function<std::string()>& metrics);

/// For a client that takes too long to ask.
[[nodiscard]] std::string too_slow();

}  // namespace verbena::top
