#include "packet/cm_mad.h"

#include <optional>

namespace verbena::packet {
namespace {

std::optional<CmMalformed> check_header(const MadHeader& h) {
  if (h.base_version != MadHeader::kBaseVersion) return CmMalformed::bad_base_version;
  if (h.management_class != kCmClass) return CmMalformed::other_class;
  if (h.class_version != kCmClassVersion) return CmMalformed::bad_class_version;
  if (h.method != MadHeader::kMethodSend) return CmMalformed::bad_method;
  return std::nullopt;
}

std::optional<CmMessage> decode_message(CmAttribute attribute, CmData b) {
  switch (attribute) {
    case CmAttribute::req:
      return decode_cm_req(b);
    case CmAttribute::mra:
      return decode_cm_mra(b);
    case CmAttribute::rej:
      return decode_cm_rej(b);
    case CmAttribute::rep:
      return decode_cm_rep(b);
    case CmAttribute::rtu:
      return decode_cm_rtu(b);
    case CmAttribute::dreq:
      return decode_cm_dreq(b);
    case CmAttribute::drep:
      return decode_cm_drep(b);
    case CmAttribute::sidr_req:
      return decode_cm_sidr_req(b);
    case CmAttribute::sidr_rep:
      return decode_cm_sidr_rep(b);
    case CmAttribute::lap:
      return decode_cm_lap(b);
    case CmAttribute::apr:
      return decode_cm_apr(b);
  }
  return std::nullopt;
}

struct Encoder {
  CmDataOut out;
  void operator()(const CmReq& m) const { encode_cm_req(m, out); }
  void operator()(const CmMra& m) const { encode_cm_mra(m, out); }
  void operator()(const CmRej& m) const { encode_cm_rej(m, out); }
  void operator()(const CmRep& m) const { encode_cm_rep(m, out); }
  void operator()(const CmRtu& m) const { encode_cm_rtu(m, out); }
  void operator()(const CmDreq& m) const { encode_cm_dreq(m, out); }
  void operator()(const CmDrep& m) const { encode_cm_drep(m, out); }
  void operator()(const CmSidrReq& m) const { encode_cm_sidr_req(m, out); }
  void operator()(const CmSidrRep& m) const { encode_cm_sidr_rep(m, out); }
  void operator()(const CmLap& m) const { encode_cm_lap(m, out); }
  void operator()(const CmApr& m) const { encode_cm_apr(m, out); }
};

}  // namespace

std::variant<CmMad, CmMalformed> decode_cm(std::span<const std::uint8_t> bytes) {
  if (bytes.size() != kMadSize) return CmMalformed::bad_size;
  const MadHeader header = *decode_mad_header(bytes);
  if (const auto reason = check_header(header)) return *reason;
  auto message = decode_message(static_cast<CmAttribute>(header.attribute),
                                bytes.subspan<MadHeader::kSize, kCmDataSize>());
  if (!message) return CmMalformed::unknown_attribute;
  return CmMad{header.transaction, *message};
}

MadBytes encode_cm(const CmMad& mad) {
  MadBytes bytes{};
  const MadHeader header{
      .management_class = kCmClass,
      .class_version = kCmClassVersion,
      .transaction = mad.transaction,
      .attribute = static_cast<std::uint16_t>(attribute_of(mad.message)),
  };
  encode_mad_header(header, bytes);
  std::visit(Encoder{std::span{bytes}.subspan<MadHeader::kSize>()}, mad.message);
  return bytes;
}

CmAttribute attribute_of(const CmMessage& message) {
  return std::visit([](const auto& m) { return m.kAttribute; }, message);
}

}  // namespace verbena::packet
