#pragma once

// What the device says about itself, in queries and in its virtual files.

#include <cstdint>
#include <string_view>

namespace verbena::front {

extern const std::string_view kFirmwareVersion;  // shorter than 64 characters
inline constexpr std::string_view kBoardId = "verbena";
/// No registered vendor, as the kernel's software devices say it: no program takes us for hardware.
inline constexpr std::uint32_t kVendorId = 0xff'ffff;
/// A part's number means something to its vendor only. perftest looks at it alone, and sends
/// nothing inline (`-I` included) by a device whose number it doesn't know; about this one it knows
/// that.
inline constexpr std::uint32_t kVendorPartId = 1824;
inline constexpr std::uint32_t kHardwareVersion = 1;

}  // namespace verbena::front
