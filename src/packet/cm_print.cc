#include "packet/cm_print.h"

#include <algorithm>

#include "packet/ip_cm_header.h"
#include "packet/line.h"

namespace verbena::packet {
namespace {

/// Private data is counted up to its last byte that isn't zero: the rest is what a message is
/// filled up with.
template <std::size_t N>
void add_private(Line& line, const CmPrivateData<N>& data) {
  const auto last = std::find_if(data.rbegin(), data.rend(), [](std::uint8_t b) { return b != 0; });
  const auto used = static_cast<std::size_t>(data.rend() - last);
  if (used != 0) line.number("private", used);
}

void add_ids(Line& line, CommId local, CommId remote) {
  line.hex("from", local.value(), 8);
  line.hex("to", remote.value(), 8);
}

void add_service(Line& line, ServiceId service) {
  const auto space = service.space();
  if (!space) return line.hex("service", service.value(), 16);
  line.word("service");
  line.word(text(*space));
  line.word(std::to_string(service.port()));
}

/// Private data of a request, behind the addresses if it has any.
template <std::size_t N>
void add_request_data(Line& line, ServiceId service, const CmPrivateData<N>& data) {
  const auto header = service.has_ip_header() ? decode_ip_cm_header(data) : std::nullopt;
  if (!header) return add_private(line, data);
  line.word(header->source.text());
  line.number("port", header->source_port);
  line.word("to");
  line.word(header->destination.text());
  add_private(line, load_bytes<N - IpCmHeader::kSize>(&data[IpCmHeader::kSize]));
}

void add_depths(Line& line, std::uint8_t responder, std::uint8_t initiator) {
  line.number("responder", responder);
  line.number("initiator", initiator);
}

void add_path(Line& line, const CmPath& path) {
  line.word("path");
  line.word(path.local.text());
  line.word(path.remote.text());
  line.number("ack_timeout", path.ack_timeout.value());
}

void add_message(Line& line, const CmReq& m) {
  line.hex("from", m.local_id.value(), 8);
  add_service(line, m.service);
  line.word(text(m.transport));
  line.hex("qp", m.qpn.value(), 6);
  line.hex("psn", m.starting_psn.value(), 6);
  line.number("mtu", bytes_of(m.mtu).value_or(0));
  add_depths(line, m.responder_resources, m.initiator_depth);
  line.number("retry", m.retry_count);
  line.number("rnr_retry", m.rnr_retry_count);
  if (m.flow_control) line.word("flow_control");
  if (m.srq) line.word("srq");
  line.hex("guid", m.ca_guid, 16);
  add_path(line, m.primary);
  if (m.alternate != CmPath{}) line.word("alternate");
  add_request_data(line, m.service, m.private_data);
}

void add_message(Line& line, const CmMra& m) {
  add_ids(line, m.local_id, m.remote_id);
  line.word("of");
  line.word(text(m.message));
  line.number("timeout", m.service_timeout.value());
  add_private(line, m.private_data);
}

void add_message(Line& line, const CmRej& m) {
  add_ids(line, m.local_id, m.remote_id);
  line.word("of");
  line.word(text(m.message));
  line.number("reason", static_cast<std::uint16_t>(m.reason));
  line.word(text(m.reason));
  if (m.info_length != 0) line.number("info", m.info_length);
  add_private(line, m.private_data);
}

void add_message(Line& line, const CmRep& m) {
  add_ids(line, m.local_id, m.remote_id);
  line.hex("qp", m.qpn.value(), 6);
  line.hex("psn", m.starting_psn.value(), 6);
  add_depths(line, m.responder_resources, m.initiator_depth);
  line.number("rnr_retry", m.rnr_retry_count);
  line.number("ack_delay", m.target_ack_delay.value());
  if (m.flow_control) line.word("flow_control");
  if (m.srq) line.word("srq");
  line.hex("guid", m.ca_guid, 16);
  add_private(line, m.private_data);
}

void add_message(Line& line, const CmRtu& m) {
  add_ids(line, m.local_id, m.remote_id);
  add_private(line, m.private_data);
}

void add_message(Line& line, const CmDreq& m) {
  add_ids(line, m.local_id, m.remote_id);
  line.hex("qp", m.remote_qpn.value(), 6);
  add_private(line, m.private_data);
}

void add_message(Line& line, const CmDrep& m) {
  add_ids(line, m.local_id, m.remote_id);
  add_private(line, m.private_data);
}

void add_message(Line& line, const CmSidrReq& m) {
  line.hex("from", m.request_id.value(), 8);
  add_service(line, m.service);
  add_request_data(line, m.service, m.private_data);
}

void add_message(Line& line, const CmSidrRep& m) {
  line.hex("to", m.request_id.value(), 8);
  add_service(line, m.service);
  line.number("status", static_cast<std::uint8_t>(m.status));
  line.word(text(m.status));
  line.hex("qp", m.qpn.value(), 6);
  line.hex("qkey", m.qkey, 8);
  add_private(line, m.private_data);
}

void add_message(Line& line, const CmLap& m) {
  add_ids(line, m.local_id, m.remote_id);
  line.hex("qp", m.remote_qpn.value(), 6);
  add_path(line, m.alternate);
  add_private(line, m.private_data);
}

void add_message(Line& line, const CmApr& m) {
  add_ids(line, m.local_id, m.remote_id);
  line.number("status", static_cast<std::uint8_t>(m.status));
  line.word(text(m.status));
  if (m.info_length != 0) line.number("info", m.info_length);
  add_private(line, m.private_data);
}

}  // namespace

std::string text(const CmMad& mad) {
  Line line{text(attribute_of(mad.message))};
  line.hex("tid", mad.transaction, 16);
  std::visit([&line](const auto& m) { add_message(line, m); }, mad.message);
  return std::move(line).take();
}

std::string_view text(PortSpace v) {
  switch (v) {
    case PortSpace::ipoib:
      return "ipoib";
    case PortSpace::tcp:
      return "tcp";
    case PortSpace::udp:
      return "udp";
    case PortSpace::ib:
      return "ib";
  }
  return "unknown space";
}

std::string_view text(CmAttribute v) {
  switch (v) {
    case CmAttribute::req:
      return "REQ";
    case CmAttribute::mra:
      return "MRA";
    case CmAttribute::rej:
      return "REJ";
    case CmAttribute::rep:
      return "REP";
    case CmAttribute::rtu:
      return "RTU";
    case CmAttribute::dreq:
      return "DREQ";
    case CmAttribute::drep:
      return "DREP";
    case CmAttribute::sidr_req:
      return "SIDR_REQ";
    case CmAttribute::sidr_rep:
      return "SIDR_REP";
    case CmAttribute::lap:
      return "LAP";
    case CmAttribute::apr:
      return "APR";
  }
  return "unknown message";
}

std::string_view text(CmAnswered v) {
  switch (v) {
    case CmAnswered::req:
      return "REQ";
    case CmAnswered::rep:
      return "REP";
    case CmAnswered::other:
      return "other";
  }
  return "reserved message";
}

std::string_view text(CmTransport v) {
  switch (v) {
    case CmTransport::rc:
      return "rc";
    case CmTransport::uc:
      return "uc";
    case CmTransport::rd:
      return "rd";
    case CmTransport::extended:
      return "extended";
  }
  return "unknown transport";
}

std::string_view text(RejectReason v) {
  switch (v) {
    case RejectReason::no_qp:
      return "no qp";
    case RejectReason::no_eec:
      return "no eec";
    case RejectReason::no_resources:
      return "no resources";
    case RejectReason::timeout:
      return "timeout";
    case RejectReason::unsupported_request:
      return "unsupported request";
    case RejectReason::invalid_comm_id:
      return "invalid comm id";
    case RejectReason::invalid_comm_instance:
      return "invalid comm instance";
    case RejectReason::invalid_service_id:
      return "invalid service id";
    case RejectReason::invalid_transport:
      return "invalid transport";
    case RejectReason::stale_connection:
      return "stale connection";
    case RejectReason::no_rdc:
      return "no rdc";
    case RejectReason::invalid_gid:
      return "invalid gid";
    case RejectReason::invalid_lid:
      return "invalid lid";
    case RejectReason::invalid_service_level:
      return "invalid service level";
    case RejectReason::invalid_traffic_class:
      return "invalid traffic class";
    case RejectReason::invalid_hop_limit:
      return "invalid hop limit";
    case RejectReason::invalid_packet_rate:
      return "invalid packet rate";
    case RejectReason::invalid_alternate_gid:
      return "invalid alternate gid";
    case RejectReason::invalid_alternate_lid:
      return "invalid alternate lid";
    case RejectReason::invalid_alternate_service_level:
      return "invalid alternate service level";
    case RejectReason::invalid_alternate_traffic_class:
      return "invalid alternate traffic class";
    case RejectReason::invalid_alternate_hop_limit:
      return "invalid alternate hop limit";
    case RejectReason::invalid_alternate_packet_rate:
      return "invalid alternate packet rate";
    case RejectReason::redirect_cm:
      return "redirect cm";
    case RejectReason::redirect_port:
      return "redirect port";
    case RejectReason::invalid_mtu:
      return "invalid mtu";
    case RejectReason::insufficient_responder_resources:
      return "insufficient responder resources";
    case RejectReason::consumer:
      return "consumer";
    case RejectReason::invalid_rnr_retry:
      return "invalid rnr retry";
    case RejectReason::duplicate_local_comm_id:
      return "duplicate local comm id";
    case RejectReason::invalid_class_version:
      return "invalid class version";
    case RejectReason::invalid_flow_label:
      return "invalid flow label";
    case RejectReason::invalid_alternate_flow_label:
      return "invalid alternate flow label";
    case RejectReason::vendor_option_not_supported:
      return "vendor option not supported";
  }
  return "reserved reason";
}

std::string_view text(AprStatus v) {
  switch (v) {
    case AprStatus::loaded:
      return "loaded";
    case AprStatus::invalid_comm_id:
      return "invalid comm id";
    case AprStatus::unsupported:
      return "unsupported";
    case AprStatus::rejected:
      return "rejected";
    case AprStatus::redirect:
      return "redirect";
    case AprStatus::is_current:
      return "is current";
    case AprStatus::invalid_qpn:
      return "invalid qpn";
    case AprStatus::invalid_lid:
      return "invalid lid";
    case AprStatus::invalid_gid:
      return "invalid gid";
    case AprStatus::invalid_flow_label:
      return "invalid flow label";
    case AprStatus::invalid_traffic_class:
      return "invalid traffic class";
    case AprStatus::invalid_hop_limit:
      return "invalid hop limit";
    case AprStatus::invalid_packet_rate:
      return "invalid packet rate";
    case AprStatus::invalid_service_level:
      return "invalid service level";
  }
  return "reserved status";
}

std::string_view text(SidrStatus v) {
  switch (v) {
    case SidrStatus::valid:
      return "valid";
    case SidrStatus::unsupported_service:
      return "unsupported service";
    case SidrStatus::rejected:
      return "rejected";
    case SidrStatus::no_qp:
      return "no qp";
    case SidrStatus::redirect:
      return "redirect";
    case SidrStatus::unsupported_version:
      return "unsupported version";
  }
  return "reserved status";
}

std::string_view text(CmMalformed v) {
  switch (v) {
    case CmMalformed::bad_size:
      return "bad size";
    case CmMalformed::bad_base_version:
      return "bad base version";
    case CmMalformed::other_class:
      return "other class";
    case CmMalformed::bad_class_version:
      return "bad class version";
    case CmMalformed::bad_method:
      return "bad method";
    case CmMalformed::unknown_attribute:
      return "unknown attribute";
  }
  return "unknown reason";
}

}  // namespace verbena::packet
