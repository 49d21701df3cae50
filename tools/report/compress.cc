#include "tools/report/compress.h"

#include <cstring>
#include <string_view>
#include <vector>

namespace verbena::report {
namespace {

// Of the format: a match has at least 4 bytes and lies at most 64 KiB back; the last 5 bytes are
// literals, and no match begins in the last 12.
constexpr std::size_t kMinMatch = 4;
constexpr std::size_t kMaxDistance = 65535;
constexpr std::size_t kLastLiterals = 5;
constexpr std::size_t kMatchLimit = 12;
constexpr unsigned kHashBits = 16;
constexpr std::size_t kNibble = 15;  // a length from here on goes on in bytes of its own

std::uint32_t word_at(std::span<const std::uint8_t> b, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, &b[at], sizeof word);
  return word;
}

std::size_t hash_of(std::uint32_t word) { return (word * 2654435761u) >> (32 - kHashBits); }

void put_length(std::string& out, std::size_t length) {
  if (length < kNibble) return;
  length -= kNibble;
  for (; length >= 255; length -= 255) out.push_back('\xff');
  out.push_back(static_cast<char>(length));
}

/// Literals, then a match if `length` isn't 0.
void put_sequence(std::string& out, std::span<const std::uint8_t> literals, std::size_t distance,
                  std::size_t length) {
  const std::size_t coded = length == 0 ? 0 : length - kMinMatch;
  out.push_back(
      static_cast<char>((std::min(literals.size(), kNibble) << 4) | std::min(coded, kNibble)));
  put_length(out, literals.size());
  out.append(reinterpret_cast<const char*>(literals.data()), literals.size());
  if (length == 0) return;
  out.push_back(static_cast<char>(distance & 0xff));
  out.push_back(static_cast<char>(distance >> 8));
  put_length(out, coded);
}

std::size_t match_length(std::span<const std::uint8_t> b, std::size_t earlier, std::size_t at) {
  const std::size_t limit = b.size() - kLastLiterals;
  std::size_t length = kMinMatch;
  while (at + length < limit && b[earlier + length] == b[at + length]) ++length;
  return length;
}

}  // namespace

std::string compress(std::span<const std::uint8_t> bytes) {
  std::string out;
  out.reserve(bytes.size() / 4);
  std::vector<std::uint32_t> seen(std::size_t{1} << kHashBits, 0);  // place + 1
  std::size_t at = 0;
  std::size_t literals = 0;  // where they begin
  while (at + kMatchLimit < bytes.size()) {
    const std::uint32_t word = word_at(bytes, at);
    std::uint32_t& entry = seen[hash_of(word)];
    const std::size_t earlier = entry;
    entry = static_cast<std::uint32_t>(at + 1);
    if (earlier == 0 || at - (earlier - 1) > kMaxDistance || word_at(bytes, earlier - 1) != word) {
      at += 1 + ((at - literals) >> 6);  // faster through what doesn't repeat
      continue;
    }
    const std::size_t length = match_length(bytes, earlier - 1, at);
    put_sequence(out, bytes.subspan(literals, at - literals), at - (earlier - 1), length);
    at += length;
    literals = at;
  }
  put_sequence(out, bytes.subspan(literals), 0, 0);
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  const auto byte = [&bytes](std::size_t i) {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u;
  };
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::uint32_t word = (byte(i) << 16) | (byte(i + 1) << 8) | byte(i + 2);
    for (int shift = 18; shift >= 0; shift -= 6) out.push_back(kDigits[(word >> shift) & 63]);
  }
  for (std::size_t missing = (3 - bytes.size() % 3) % 3; missing > 0; --missing) {
    out[out.size() - missing] = '=';
  }
  return out;
}

}  // namespace verbena::report
