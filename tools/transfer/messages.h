#pragma once

// The messages of a transfer, byte for byte. All numbers are big-endian.
//
//   sender                                  receiver
//   hello      nonce, proofs it can give
//                                           challenge  nonce, the proof that is wanted, its own
//                                           proof
//   proof      of the sender
//                                           grant      queue pairs, slots, size of a chunk
//   (connects the queue pairs; each answer grants the memory of its slots)
//   totals     of all entries, for the progress bar
//   entry      a file, directory or link
//                                           have       hashes of chunks that are there
//                                           verdict    send, compare, or don't
//   holes      chunks that are holes        (chunks: a WRITE into a slot, see ChunkHeader)
//   differs    compared: the file is another one
//   finish     all chunks are there; root
//                                           result     placed, or why not
//   give_up    the source failed
//   done       no more entries
//                                           goodbye    everything is in its place
//   ping, abort                             ping, abort

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/transfer/chunk_hash.h"

namespace verbena::transfer {

inline constexpr std::uint32_t kMagic = 0x5642'5452;  // "VBTR"
inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::size_t kMessageSize = 16384;  // no message is longer
inline constexpr std::size_t kHashesPerMessage = 1000;
inline constexpr std::uint64_t kMostChunks = std::uint64_t{1} << 24;  // of one file

enum class MessageType : std::uint16_t {
  hello = 1,
  challenge,
  proof,
  grant,
  totals,
  entry,
  have,
  verdict,
  holes,
  differs,
  finish,
  result,
  give_up,
  done,
  goodbye,
  ping,
  abort
};

/// What came is no message, or not one that may come here.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Bytes32 = std::array<std::uint8_t, 32>;

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
  void operator()(std::int64_t value) { put(static_cast<std::uint64_t>(value), 8); }
  template <std::size_t N>
  void operator()(const std::array<std::uint8_t, N>& value) {
    for (const std::uint8_t byte : value) put(byte, 1);
  }
  void operator()(const std::string& text) {
    put(text.size(), 2);
    for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  }
  void operator()(const std::vector<Hash>& hashes) {
    put(hashes.size(), 2);
    for (const Hash& hash : hashes) (*this)(hash);
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
  void operator()(std::int64_t& value) { value = static_cast<std::int64_t>(get(8)); }
  template <std::size_t N>
  void operator()(std::array<std::uint8_t, N>& value) {
    for (std::uint8_t& byte : value) byte = static_cast<std::uint8_t>(get(1));
  }
  void operator()(std::string& text) {
    const auto bytes = take(get(2));
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void operator()(std::vector<Hash>& hashes) {
    const std::size_t count = get(2);
    Reader all{take(count * sizeof(Hash))};
    hashes.resize(count);
    for (Hash& hash : hashes) all(hash);
  }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> take(std::size_t count);

  std::span<const std::byte> rest_;
};

// Each message names its fields once, in their order, for both directions.

struct Hello {
  static constexpr MessageType kType = MessageType::hello;
  Bytes32 nonce{};
  std::uint32_t ticket = 0;  // of the secret that the receiver gave it, see same_user.h; 0: none
  std::uint8_t key = 0;      // it has a key file
  void fields(auto& field) { field(nonce), field(ticket), field(key); }
};

enum class Trust : std::uint8_t { same_user = 1, key = 2 };

struct Challenge {
  static constexpr MessageType kType = MessageType::challenge;
  Bytes32 nonce{};
  std::uint8_t trust = 0;
  Bytes32 proof{};
  void fields(auto& field) { field(nonce), field(trust), field(proof); }
};

struct Proof {
  static constexpr MessageType kType = MessageType::proof;
  Bytes32 proof{};
  void fields(auto& field) { field(proof); }
};

struct Grant {
  static constexpr MessageType kType = MessageType::grant;
  std::uint32_t queue_pairs = 0;
  std::uint32_t slots = 0;  // of each queue pair
  std::uint32_t chunk_size = 0;
  void fields(auto& field) { field(queue_pairs), field(slots), field(chunk_size); }
};

struct Totals {
  static constexpr MessageType kType = MessageType::totals;
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  void fields(auto& field) { field(entries), field(bytes); }
};

enum class Kind : std::uint8_t { file = 1, directory, link };

struct Entry {
  static constexpr MessageType kType = MessageType::entry;
  std::uint64_t id = 0;
  std::uint8_t kind = 0;
  std::uint8_t sparse = 0;   // the source has holes
  std::uint32_t mode = 0;    // the permission bits alone count
  std::int64_t seconds = 0;  // of the last modification
  std::uint32_t nanoseconds = 0;
  std::uint64_t size = 0;
  std::uint64_t device = 0;  // of the source, as are inode and size: another one, another file
  std::uint64_t inode = 0;
  std::string path{};    // below DIR, of any bytes
  std::string target{};  // of a link
  void fields(auto& field) {
    field(id), field(kind), field(sparse), field(mode), field(seconds), field(nanoseconds);
    field(size), field(device), field(inode), field(path), field(target);
  }
};

struct Have {
  static constexpr MessageType kType = MessageType::have;
  std::uint64_t id = 0;
  std::uint64_t first = 0;
  std::vector<Hash> hashes;
  void fields(auto& field) { field(id), field(first), field(hashes); }
};

/// What the sender is to do with an entry.
enum class Action : std::uint8_t {
  send = 1,  // the chunks whose hash isn't among those of `have`
  compare,   // all hashes of a file that is there already are in `have`
};

struct Verdict {
  static constexpr MessageType kType = MessageType::verdict;
  std::uint64_t id = 0;
  std::uint8_t action = 0;
  std::string note;  // for people; may be empty
  void fields(auto& field) { field(id), field(action), field(note); }
};

struct Holes {
  static constexpr MessageType kType = MessageType::holes;
  std::uint64_t id = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  void fields(auto& field) { field(id), field(first), field(count); }
};

struct Differs {
  static constexpr MessageType kType = MessageType::differs;
  std::uint64_t id = 0;
  void fields(auto& field) { field(id); }
};

struct Finish {
  static constexpr MessageType kType = MessageType::finish;
  std::uint64_t id = 0;
  Hash root{};
  void fields(auto& field) { field(id), field(root); }
};

enum class Outcome : std::uint8_t {
  placed = 1,
  identical,  // it was there already, byte for byte
  skipped,    // something is there, and the receiver keeps it
  failed,     // the others go on
};

struct Result {
  static constexpr MessageType kType = MessageType::result;
  std::uint64_t id = 0;
  std::uint8_t outcome = 0;
  std::string text;
  void fields(auto& field) { field(id), field(outcome), field(text); }
};

struct GiveUp {
  static constexpr MessageType kType = MessageType::give_up;
  std::uint64_t id = 0;
  std::string text;
  void fields(auto& field) { field(id), field(text); }
};

struct Done {
  static constexpr MessageType kType = MessageType::done;
  void fields(auto&) {}
};

struct Goodbye {
  static constexpr MessageType kType = MessageType::goodbye;
  void fields(auto&) {}
};

struct Ping {
  static constexpr MessageType kType = MessageType::ping;
  void fields(auto&) {}
};

struct Abort {
  static constexpr MessageType kType = MessageType::abort;
  std::string text;
  void fields(auto& field) { field(text); }
};

namespace detail {
[[nodiscard]] std::vector<std::byte> framed(MessageType type, std::vector<std::byte> body);
/// The body of a message of that type.
[[nodiscard]] std::span<const std::byte> body_of(std::span<const std::byte> message,
                                                 MessageType type);
void check_all_read(std::size_t left, MessageType type);
}  // namespace detail

/// Throws Malformed if it would be longer than kMessageSize.
template <class Message>
[[nodiscard]] std::vector<std::byte> encode(Message message) {
  Writer body;
  message.fields(body);
  return detail::framed(Message::kType, std::move(body.bytes));
}

/// The type of a message that is whole and of this version. Throws Malformed.
[[nodiscard]] MessageType type_of(std::span<const std::byte> message);

/// Throws Malformed.
template <class Message>
[[nodiscard]] Message decode(std::span<const std::byte> bytes) {
  Reader reader{detail::body_of(bytes, Message::kType)};
  Message message;
  message.fields(reader);
  detail::check_all_read(reader.left(), Message::kType);
  return message;
}

/// In front of the bytes of a chunk, in its slot.
struct ChunkHeader {
  static constexpr std::size_t kSize = 36;
  std::uint64_t id = 0;
  std::uint64_t chunk = 0;
  std::uint32_t length = 0;
  Hash hash{};
  void fields(auto& field) { field(id), field(chunk), field(length), field(hash); }
};

/// What a new queue pair shows the receiver when it asks to connect. At most 56 bytes.
struct QueuePairRequest {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t index = 0;  // kControl: the control connection
  Bytes32 proof{};
  static constexpr std::uint32_t kControl = 0xffff'ffff;
  static constexpr std::size_t kSize = 44;
  void fields(auto& field) { field(magic), field(version), field(index), field(proof); }
};

/// What the receiver answers: the memory of the queue pair's slots.
struct SlotMemory {
  static constexpr std::size_t kSize = 20;
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  std::uint32_t rkey = 0;
  void fields(auto& field) { field(addr), field(length), field(rkey); }
};

template <class Fixed>
[[nodiscard]] std::vector<std::byte> encode_fixed(Fixed value) {
  Writer writer;
  value.fields(writer);
  return std::move(writer.bytes);
}
/// Throws Malformed if there are too few bytes; more may follow.
template <class Fixed>
[[nodiscard]] Fixed decode_fixed(std::span<const std::byte> bytes) {
  Reader reader{bytes};
  Fixed value;
  value.fields(reader);
  return value;
}

}  // namespace verbena::transfer
