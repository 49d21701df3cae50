#pragma once

// The messages of a file transfer, byte for byte, so that two ends can be built by different
// compilers, for different machines, at different times. All numbers are big-endian.
//
//   header   magic 4 | version 2 | type 2 | length of the body 4
//   offer    length 8 | SHA-256 32 | name (2 + bytes)      sender    this is coming
//   grant    addr 8 | length 8 | rkey 4                    receiver  write it there
//   done     bytes written 8                               sender    it is there
//   verdict  good 1 | reason (2 + bytes)                   receiver  kept, or why not
//   id       number 8                                      sender    who asks
//   secret   32                                            receiver  for who sent a good file
//   proof    SHA-256 32                                    sender    the secret has arrived

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace wire {

using Hash = std::array<std::uint8_t, 32>;

inline constexpr std::uint32_t kMagic = 0x5642'464c;  // "VBFL"
inline constexpr std::uint16_t kVersion = 2;
inline constexpr std::size_t kHeaderSize = 12;
inline constexpr std::size_t kMessageSize = 1024;  // no message is longer

enum class Type : std::uint16_t { offer = 1, grant, done, verdict, id, secret, proof };

/// What came isn't what the conversation expects; what() says both.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Writer {
 public:
  void put(std::uint64_t value, std::size_t width) {
    for (std::size_t i = width; i-- > 0;) {
      bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  }
  void operator()(std::uint8_t value) { put(value, 1); }
  void operator()(std::uint32_t value) { put(value, 4); }
  void operator()(std::uint64_t value) { put(value, 8); }
  void operator()(const Hash& hash) {
    for (const std::uint8_t byte : hash) put(byte, 1);
  }
  void operator()(const std::string& text) {
    put(text.size(), 2);
    for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  }

  std::vector<std::byte> bytes;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> all) : rest_{all} {}
  std::uint64_t get(std::size_t width) {
    std::uint64_t value = 0;
    for (const std::byte byte : take(width)) value = value << 8 | static_cast<std::uint64_t>(byte);
    return value;
  }
  void operator()(std::uint8_t& value) { value = static_cast<std::uint8_t>(get(1)); }
  void operator()(std::uint32_t& value) { value = static_cast<std::uint32_t>(get(4)); }
  void operator()(std::uint64_t& value) { value = get(8); }
  void operator()(Hash& hash) {
    for (std::uint8_t& byte : hash) byte = static_cast<std::uint8_t>(get(1));
  }
  void operator()(std::string& text) {
    const auto bytes = take(get(2));
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) {
      throw Malformed{fmt::format("a message ends after {} bytes where {} more are needed",
                                  rest_.size(), count)};
    }
    const auto front = rest_.first(count);
    rest_ = rest_.subspan(count);
    return front;
  }
  std::span<const std::byte> rest_;
};

// Each message names its fields once, in their order, for both directions.

struct Offer {
  static constexpr Type kType = Type::offer;
  std::uint64_t length = 0;
  Hash hash{};
  std::string name;
  void fields(auto& field) { field(length), field(hash), field(name); }
};
struct Grant {
  static constexpr Type kType = Type::grant;
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  std::uint32_t rkey = 0;
  void fields(auto& field) { field(addr), field(length), field(rkey); }
};
struct Done {
  static constexpr Type kType = Type::done;
  std::uint64_t written = 0;
  void fields(auto& field) { field(written); }
};
struct Verdict {
  static constexpr Type kType = Type::verdict;
  std::uint8_t good = 0;
  std::string reason;
  void fields(auto& field) { field(good), field(reason); }
};
struct Id {
  static constexpr Type kType = Type::id;
  std::uint64_t number = 0;
  void fields(auto& field) { field(number); }
};
struct Secret {
  static constexpr Type kType = Type::secret;
  Hash value{};
  void fields(auto& field) { field(value); }
};
struct Proof {
  static constexpr Type kType = Type::proof;
  Hash value{};
  void fields(auto& field) { field(value); }
};

/// Throws Malformed when it would be longer than kMessageSize.
template <class Message>
[[nodiscard]] std::vector<std::byte> encode(Message message) {
  Writer body;
  message.fields(body);
  Writer whole;
  whole.put(kMagic, 4);
  whole.put(kVersion, 2);
  whole.put(static_cast<std::uint16_t>(Message::kType), 2);
  whole.put(body.bytes.size(), 4);
  whole.bytes.insert(whole.bytes.end(), body.bytes.begin(), body.bytes.end());
  if (whole.bytes.size() > kMessageSize) {
    throw Malformed{fmt::format("a message of {} bytes, {} are allowed; is the name that long?",
                                whole.bytes.size(), kMessageSize)};
  }
  return whole.bytes;
}

/// The type of a message that is one of ours and whole. Throws Malformed.
[[nodiscard]] inline Type type_of(std::span<const std::byte> bytes) {
  Reader reader{bytes};
  if (const auto magic = reader.get(4); magic != kMagic) {
    throw Malformed{fmt::format("magic {:#x} instead of {:#x}: no file transfer", magic, kMagic)};
  }
  if (const auto version = reader.get(2); version != kVersion) {
    throw Malformed{
        fmt::format("the peer speaks version {}, this end speaks {}: use the same "
                    "release at both ends",
                    version, kVersion)};
  }
  const auto type = static_cast<Type>(reader.get(2));
  if (const auto length = reader.get(4); length != reader.left()) {
    throw Malformed{fmt::format("a body of {} bytes instead of {}", reader.left(), length)};
  }
  return type;
}

/// Throws Malformed.
template <class Message>
[[nodiscard]] Message decode(std::span<const std::byte> bytes) {
  if (const Type type = type_of(bytes); type != Message::kType) {
    throw Malformed{fmt::format("message type {} where {} was expected", static_cast<int>(type),
                                static_cast<int>(Message::kType))};
  }
  Reader reader{bytes.subspan(kHeaderSize)};
  Message message;
  message.fields(reader);
  if (reader.left() != 0) {
    throw Malformed{fmt::format("{} bytes too many in a message of type {}", reader.left(),
                                static_cast<int>(Message::kType))};
  }
  return message;
}

}  // namespace wire
