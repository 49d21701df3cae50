#include "host/observation/frame_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <vector>

#include "packet/bth.h"
#include "packet/cm_attribute.h"
#include "packet/mad.h"
#include "packet/print.h"

namespace verbena::host {
namespace {

/// As Wireshark names them; empty: another kind of management datagram.
std::string_view cm_name(std::span<const std::uint8_t> mad) {
  using packet::CmAttribute;
  const auto header = packet::decode_mad_header(mad);
  if (!header || header->management_class != packet::kCmClass) return "";
  switch (static_cast<CmAttribute>(header->attribute)) {
    case CmAttribute::req:
      return "ConnectRequest";
    case CmAttribute::mra:
      return "MRA";
    case CmAttribute::rej:
      return "ConnectReject";
    case CmAttribute::rep:
      return "ConnectReply";
    case CmAttribute::rtu:
      return "ReadyToUse";
    case CmAttribute::dreq:
      return "DisconnectRequest";
    case CmAttribute::drep:
      return "DisconnectReply";
    case CmAttribute::sidr_req:
      return "ServiceIDResolutionRequest";
    case CmAttribute::sidr_rep:
      return "ServiceIDResolutionResponse";
    case CmAttribute::lap:
      return "LoadAlternatePath";
    case CmAttribute::apr:
      return "AlternatePathResponse";
  }
  return "";
}

}  // namespace

std::string quoted(Qpn qpn) { return fmt::format(R"("0x{:06x}")", qpn.value()); }

std::string gid_text(const IpAddress& address) {
  return (address.is_v4() ? "::ffff:" : "") + address.text();
}

std::string hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

std::string hex_of_headers(const packet::Packet& p) {
  std::array<std::uint8_t, packet::kMaxHeaderSize> bytes{};
  packet::encode_headers(p, bytes);
  return hex(std::span{bytes}.first(packet::header_size(p.bth.opcode)));
}

std::string packet_fields(const packet::Packet& p, std::size_t payload) {
  std::string text = fmt::format(
      R"(,"destination_qp":{},"opcode":"{}","psn":{},"bytes":{},"ack_request":{})",
      quoted(p.bth.destination), p.info().name, p.bth.psn.value(), payload, p.bth.ack_request);
  if (p.info().aeth) {
    fmt::format_to(std::back_inserter(text), R"(,"syndrome":"{}","msn":{})",
                   packet::text(p.aeth.syndrome), p.aeth.msn);
  }
  return text;
}

std::string frame_fields(std::span<const std::uint8_t> frame) {
  const auto body = frame.first(frame.size() - std::min(frame.size(), packet::kIcrcSize));
  const auto bth = packet::decode_bth(body);
  if (!bth) {
    const std::size_t size = std::min(body.size(), packet::Bth::kSize);
    return fmt::format(R"(,"bytes":{},"headers":"{}")", body.size() - size, hex(body.first(size)));
  }
  const packet::OpcodeInfo& info = packet::info_of(bth->opcode);
  const std::size_t wanted = info.known() ? packet::header_size(bth->opcode) : packet::Bth::kSize;
  const std::size_t headers = std::min(wanted, body.size());
  const std::size_t behind = body.size() - headers;
  const std::string opcode =
      info.known() ? fmt::format(R"(,"opcode":"{}")", info.name) : std::string{};
  return fmt::format(R"(,"destination_qp":{}{},"psn":{},"bytes":{},"headers":"{}")",
                     quoted(bth->destination), opcode, bth->psn.value(),
                     behind - std::min<std::size_t>(behind, bth->pad), hex(body.first(headers)));
}

std::string message_fields(const packet::Packet& p, const MessageEnds& ends) {
  std::vector<std::uint8_t> frame(packet::frame_size(p.bth.opcode, p.payload.size()));
  packet::encode(p, frame);
  const std::string_view name = cm_name(p.payload);
  return (name.empty() ? "" : fmt::format(R"(,"cm":"{}")", name)) +
         fmt::format(R"(,"local":"{}","peer":"{}","peer_qp":{},"headers":"{}")",
                     gid_text(ends.local), gid_text(ends.remote), quoted(ends.qpn), hex(frame));
}

}  // namespace verbena::host
