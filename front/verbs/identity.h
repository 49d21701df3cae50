#pragma once

// What the device says about itself, in queries and in its virtual files.

#include <cstdint>
#include <string_view>

namespace verbena::front {

extern const std::string_view kFirmwareVersion;  // shorter than 64 characters
inline constexpr std::string_view kBoardId = "verbena";
/// No registered vendor, as the kernel's software devices say it. The part is 0: programs
/// know hardware by it, and must not take us for some.
inline constexpr std::uint32_t kVendorId = 0xff'ffff;
inline constexpr std::uint32_t kVendorPartId = 0;
inline constexpr std::uint32_t kHardwareVersion = 1;

}  // namespace verbena::front
