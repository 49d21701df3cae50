#pragma once

// Which transfers are compared, and how a row of the table looks.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace bulk {

/// One way to move the same bytes. TCP knows neither depth nor signalling: both are 0.
struct Shape {
  std::uint64_t chunk = 0;  // bytes of one request, or of one send(2)
  std::uint64_t depth = 0;  // requests in flight at most
  std::uint64_t every = 0;  // each of so many requests makes a completion

  [[nodiscard]] bool is_tcp() const { return depth == 0; }
};

struct Sweep {
  std::vector<std::uint64_t> chunks{4096, 65'536, 1'048'576};
  std::vector<std::uint64_t> depths{1, 16, 128};
  std::vector<std::uint64_t> every{1, 16};

  [[nodiscard]] std::uint64_t deepest() const { return *std::ranges::max_element(depths); }
};

/// In the order of the table: for each chunk, RDMA in all its shapes, then TCP. A queue that is
/// full of unsignalled requests is never found empty again, so `every` can't exceed `depth`.
[[nodiscard]] inline std::vector<Shape> shapes_of(const Sweep& sweep, std::uint64_t size) {
  std::vector<Shape> shapes;
  std::uint64_t last = 0;
  for (const std::uint64_t wanted : sweep.chunks) {
    const std::uint64_t chunk = std::min(wanted, size);
    if (chunk == last) continue;
    last = chunk;
    for (const std::uint64_t depth : sweep.depths) {
      for (const std::uint64_t every : sweep.every) {
        if (every <= depth) shapes.push_back({chunk, depth, every});
      }
    }
    shapes.push_back({chunk, 0, 0});
  }
  return shapes;
}

/// What one transfer took.
struct Figures {
  double seconds = 0;
  double client_cpu = 0;  // seconds
  double server_cpu = 0;
  std::uint64_t completions = 0;
};

[[nodiscard]] inline std::string heading() {
  return fmt::format("{:<5} {:>8} {:>6} {:>6} {:>9} {:>12} {:>12} {:>12}", "way", "chunk", "depth",
                     "every", "GB/s", "client s/GB", "server s/GB", "completions");
}

[[nodiscard]] inline std::string row(const Shape& shape, const Figures& f, std::uint64_t size) {
  const double gigabytes = static_cast<double>(size) / 1e9;
  const auto count = [&](std::uint64_t value) {
    return shape.is_tcp() ? std::string{"-"} : fmt::format("{}", value);
  };
  return fmt::format("{:<5} {:>8} {:>6} {:>6} {:>9.3f} {:>12.2f} {:>12.2f} {:>12}",
                     shape.is_tcp() ? "TCP" : "RDMA", shape.chunk, count(shape.depth),
                     count(shape.every), gigabytes / f.seconds, f.client_cpu / gigabytes,
                     f.server_cpu / gigabytes, count(f.completions));
}

}  // namespace bulk
