#pragma once

// Who is at the other end: both prove that they know a secret, without telling it (HMAC-SHA-256
// over both nonces). The secret is the content of --key-file, or what same_user.h hands over.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/transfer/messages.h"

namespace verbena::transfer {

using Secret = std::vector<std::uint8_t>;

[[nodiscard]] Bytes32 random_bytes();

/// Reads FILE. Throws std::runtime_error if others may read it, or if it is too short to be a key.
[[nodiscard]] Secret read_key(const std::string& file);

struct Nonces {
  Bytes32 sender{};
  Bytes32 receiver{};
};

/// The purpose keeps a proof from being used for another one.
[[nodiscard]] Bytes32 prove(const Secret& secret, std::string_view purpose, const Nonces& nonces,
                            std::uint32_t index = 0);
inline constexpr std::string_view kReceiverProof = "verbena receive";
inline constexpr std::string_view kSenderProof = "verbena send";
inline constexpr std::string_view kQueuePairProof = "verbena queue pair";

/// Takes the same time wherever they differ.
[[nodiscard]] bool same(const Bytes32& a, const Bytes32& b);

}  // namespace verbena::transfer
