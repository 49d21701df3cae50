#pragma once

// Messages of the connection manager as people read them, in traces and in failing tests.

#include <string>
#include <string_view>

#include "packet/cm_mad.h"

namespace verbena::packet {

/// One line without its end, e.g. "REJ tid 0x00000002e52c0b60 from 0x00000000 to 0x600b2ce5 of REQ
/// reason 8 invalid service id".
[[nodiscard]] std::string text(const CmMad& mad);

[[nodiscard]] std::string_view text(CmAttribute v);
[[nodiscard]] std::string_view text(CmAnswered v);
[[nodiscard]] std::string_view text(CmTransport v);
[[nodiscard]] std::string_view text(PortSpace v);
[[nodiscard]] std::string_view text(RejectReason v);
[[nodiscard]] std::string_view text(AprStatus v);
[[nodiscard]] std::string_view text(SidrStatus v);
[[nodiscard]] std::string_view text(CmMalformed v);

}  // namespace verbena::packet
