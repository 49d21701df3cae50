#pragma once

// Which addresses the driver knows, and what lies behind them.
//
//   Range      what a program allocated, reserved or registered
//   Mapping    a part of a range that has memory: the whole range, but for reservations
//   Physical   the memory: a memfd that only the stand-in maps readable
//
// Device addresses are mapped without any access, so that a program that touches them dies.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/support/cuda/api.h"

namespace stand_in {

class Physical {
 public:
  explicit Physical(std::size_t size);  // throws std::bad_alloc
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical();

  [[nodiscard]] std::byte* bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] std::uint64_t id() const { return id_; }

 private:
  std::size_t size_;
  int descriptor_;
  std::byte* bytes_;
  std::uint64_t id_;
};

struct Mapping {
  std::uint64_t size = 0;
  std::uint64_t offset = 0;  // in the memory
  std::shared_ptr<Physical> memory;
  bool access = false;
};

enum class Kind { device, pool, reservation, pinned, registered, managed };
[[nodiscard]] constexpr bool on_host(Kind kind) { return kind >= Kind::pinned; }

struct Range {
  std::uint64_t start = 0;
  std::uint64_t size = 0;
  Kind kind = Kind::device;
  CUcontext context = nullptr;  // nullptr: pool, reservation
  CUdevice device = 0;
  std::uint64_t id = 0;                         // never used again
  bool read_only = false;                       // registered
  std::map<std::uint64_t, Mapping> mappings{};  // by address; none on the host

  [[nodiscard]] std::uint64_t end() const { return start + size; }
  /// The mapping that has this address; nullptr: none.
  [[nodiscard]] const std::pair<const std::uint64_t, Mapping>* mapping_of(
      std::uint64_t address) const;
};

/// A copy of the range that has this address.
[[nodiscard]] std::optional<Range> find(std::uint64_t address);

/// Aborts if memory was unmapped that is still registered.
void check_registered();
/// What is allocated in the context and registered with it; its streams have ended.
void free_memory_of(CUcontext context);

/// Bytes that a copy reads or writes, and what keeps them alive until then.
struct Piece {
  std::byte* at = nullptr;
  std::size_t size = 0;
  std::shared_ptr<Physical> memory;
};
using Extent = std::vector<Piece>;

/// Device addresses; also those of host memory that the driver knows. nullopt: not all of it is
/// there, or may be touched.
[[nodiscard]] std::optional<Extent> device_extent(std::uint64_t address, std::size_t size);
/// Addresses of the program. nullopt: it is memory of a GPU.
[[nodiscard]] std::optional<Extent> host_extent(const void* address, std::size_t size);

/// Copies inside the two, from and to these places in them.
void move_bytes(const Extent& to, std::size_t to_at, const Extent& from, std::size_t from_at,
                std::size_t size);

}  // namespace stand_in
