#pragma once

// What the device says about itself, in queries and in its virtual files.

#include <cstdint>

namespace verbena::front {

inline constexpr char kFirmwareVersion[] = "verbena " VERBENA_VERSION;
inline constexpr char kBoardId[] = "verbena";
/// No registered vendor, as the kernel's software devices say it. The part is 0: programs
/// know hardware by it, and must not take us for some.
inline constexpr std::uint32_t kVendorId = 0xff'ffff;
inline constexpr std::uint32_t kVendorPartId = 0;
inline constexpr std::uint32_t kHardwareVersion = 1;

}  // namespace verbena::front
