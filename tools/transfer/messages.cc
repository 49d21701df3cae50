#include "tools/transfer/messages.h"

#include <fmt/format.h>

namespace verbena::transfer {
namespace {

constexpr std::size_t kHeaderSize = 12;  // magic 4, version 2, type 2, length of the body 4

}  // namespace

std::span<const std::byte> Reader::take(std::size_t count) {
  if (count > rest_.size()) {
    throw Malformed{
        fmt::format("a message ends after {} bytes where {} more are needed", rest_.size(), count)};
  }
  const auto front = rest_.first(count);
  rest_ = rest_.subspan(count);
  return front;
}

namespace detail {

std::vector<std::byte> framed(MessageType type, std::vector<std::byte> body) {
  Writer whole;
  whole.put(kMagic, 4);
  whole.put(kVersion, 2);
  whole.put(static_cast<std::uint16_t>(type), 2);
  whole.put(body.size(), 4);
  whole.bytes.insert(whole.bytes.end(), body.begin(), body.end());
  if (whole.bytes.size() > kMessageSize) {
    throw Malformed{
        fmt::format("a message of {} bytes, {} are allowed", whole.bytes.size(), kMessageSize)};
  }
  return std::move(whole.bytes);
}

std::span<const std::byte> body_of(std::span<const std::byte> message, MessageType type) {
  if (const MessageType found = type_of(message); found != type) {
    throw Malformed{fmt::format("message type {} where {} was expected", static_cast<int>(found),
                                static_cast<int>(type))};
  }
  return message.subspan(kHeaderSize);
}

void check_all_read(std::size_t left, MessageType type) {
  if (left == 0) return;
  throw Malformed{
      fmt::format("{} bytes too many in a message of type {}", left, static_cast<int>(type))};
}

}  // namespace detail

MessageType type_of(std::span<const std::byte> message) {
  Reader reader{message};
  if (const auto magic = reader.get(4); magic != kMagic) {
    throw Malformed{
        fmt::format("magic {:#x} instead of {:#x}: no message of a transfer", magic, kMagic)};
  }
  if (const auto version = reader.get(2); version != kVersion) {
    throw Malformed{fmt::format(
        "the peer speaks version {}, this end speaks {}: use the same release at both ends",
        version, kVersion)};
  }
  const auto type = reader.get(2);
  if (const auto length = reader.get(4); length != reader.left()) {
    throw Malformed{fmt::format("a body of {} bytes instead of {}", reader.left(), length)};
  }
  if (type < static_cast<std::uint64_t>(MessageType::hello) ||
      type > static_cast<std::uint64_t>(MessageType::abort)) {
    throw Malformed{fmt::format("message type {} is unknown", type)};
  }
  return static_cast<MessageType>(type);
}

}  // namespace verbena::transfer
