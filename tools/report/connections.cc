#include "tools/report/connections.h"

#include <algorithm>
#include <span>
#include <variant>

#include "packet/bth.h"
#include "packet/cm_mad.h"
#include "packet/deth.h"

namespace verbena::report {
namespace {

std::optional<packet::CmMad> message_in(const Observation& o) {
  constexpr std::size_t kBefore = packet::Bth::kSize + packet::Deth::kSize;
  if (o.destination_qpn != kManagementQpn || o.headers.size() < kBefore) return std::nullopt;
  const auto decoded = packet::decode_cm(std::span{o.headers}.subspan(kBefore));
  const auto* const mad = std::get_if<packet::CmMad>(&decoded);
  return mad == nullptr ? std::nullopt : std::optional{*mad};
}

/// The ids in a message: the sender's own, and its peer's. 0: not known yet.
struct Ids {
  std::uint32_t own = 0;
  std::uint32_t peers = 0;
};

Ids ids_of(const packet::CmMessage& message) {
  return std::visit(
      [](const auto& m) -> Ids {
        using Message = std::remove_cvref_t<decltype(m)>;
        if constexpr (std::is_same_v<Message, packet::CmReq>) {
          return {m.local_id.value(), 0};
        } else if constexpr (std::is_same_v<Message, packet::CmSidrReq>) {
          return {m.request_id.value(), 0};
        } else if constexpr (std::is_same_v<Message, packet::CmSidrRep>) {
          return {0, m.request_id.value()};
        } else {
          return {m.local_id.value(), m.remote_id.value()};
        }
      },
      message);
}

/// The queue pair that the sender of the message names as its own; 0: none.
std::uint32_t qpn_in(const packet::CmMessage& message) {
  if (const auto* req = std::get_if<packet::CmReq>(&message)) return req->qpn.value();
  if (const auto* rep = std::get_if<packet::CmRep>(&message)) return rep->qpn.value();
  if (const auto* sidr = std::get_if<packet::CmSidrRep>(&message)) return sidr->qpn.value();
  return 0;
}

}  // namespace

std::string_view plain_address(std::string_view address) {
  constexpr std::string_view kMapped = "::ffff:";
  const bool mapped = address.starts_with(kMapped) && address.find('.') != std::string_view::npos;
  return mapped ? address.substr(kMapped.size()) : address;
}

Way way_of(const Observation& o, bool traced) {
  const bool arrived = o.kind == Seen::received || o.kind == Seen::dropped;
  const Way way{plain_address(o.local), plain_address(o.peer)};
  return traced && arrived ? Way{way.destination, way.source} : way;
}

std::uint32_t Connections::begin(const Way& way, std::uint32_t id) {
  const auto number = static_cast<std::uint32_t>(all_.size());
  all_.push_back({.active = way.source, .passive = way.destination, .active_id = id});
  ids_[{way.source, id}] = {number, true};
  return number;
}

std::optional<Connections::Place> Connections::take(const Observation& o, bool traced) {
  const auto mad = message_in(o);
  if (!mad) return std::nullopt;
  const Way way = way_of(o, traced);
  const Ids ids = ids_of(mad->message);

  std::optional<Place> place;
  if (const auto own = ids_.find({way.source, ids.own}); ids.own != 0 && own != ids_.end()) {
    place = Place{own->second.connection, own->second.by_active};
  } else if (const auto peers = ids_.find({way.destination, ids.peers});
             ids.peers != 0 && peers != ids_.end()) {
    place = Place{peers->second.connection, !peers->second.by_active};
    if (ids.own != 0) ids_[{way.source, ids.own}] = *place;
  } else {  // the first that is seen of it
    place = Place{begin(way, ids.own), true};
  }
  Connection& connection = all_[place->connection];
  if (const std::uint32_t qpn = qpn_in(mad->message); qpn != 0) {
    (place->by_active ? connection.active_qpn : connection.passive_qpn) = qpn;
  }
  if (!place->by_active) connection.passive_id = ids.own;
  return place;
}

std::string_view connection_message_name(const Observation& o) {
  const auto mad = message_in(o);
  if (!mad) return "";
  switch (packet::attribute_of(mad->message)) {
    case packet::CmAttribute::req:
      return "ConnectRequest";
    case packet::CmAttribute::mra:
      return "MsgRcptAck";
    case packet::CmAttribute::rej:
      return "ConnectReject";
    case packet::CmAttribute::rep:
      return "ConnectReply";
    case packet::CmAttribute::rtu:
      return "ReadyToUse";
    case packet::CmAttribute::dreq:
      return "DisconnectRequest";
    case packet::CmAttribute::drep:
      return "DisconnectReply";
    case packet::CmAttribute::sidr_req:
      return "ServiceIDResolutionRequest";
    case packet::CmAttribute::sidr_rep:
      return "ServiceIDResolutionResponse";
    case packet::CmAttribute::lap:
      return "LoadAlternatePath";
    case packet::CmAttribute::apr:
      return "AlternatePathResponse";
  }
  return "";
}

}  // namespace verbena::report
