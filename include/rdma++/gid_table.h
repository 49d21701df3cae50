// The addresses of a port.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "rdma++/error.h"
#include "rdma++/gid.h"

namespace rdma {

/// One row of a port's GID table.
struct GidEntry {
  Gid gid{};
  int index = 0;
  ibv_gid_type type{};
  std::uint32_t interface = 0;  ///< of the network interface, 0 when there is none
};

namespace detail {
/// "device vb_lo", for messages.
[[nodiscard]] inline std::string device_of(const ibv_context* context) {
  return concat("device ", ibv_get_device_name(context->device));
}
}  // namespace detail

/// The rows in use.
[[nodiscard]] inline std::vector<GidEntry> gid_table(ibv_context* context, std::uint8_t port) {
  ibv_port_attr attr{};
  const int code = ibv_query_port(context, port, &attr);
  if (code != 0) {
    throw Error{"ibv_query_port", concat(detail::device_of(context), ", port ", int{port}), code};
  }
  std::vector<GidEntry> result;
  for (int i = 0; i < attr.gid_tbl_len; ++i) {
    ibv_gid_entry row{};
    if (ibv_query_gid_ex(context, port, static_cast<std::uint32_t>(i), &row, 0) != 0) {
      continue;  // ENODATA: an empty row
    }
    result.push_back(
        {Gid::from(row.gid), i, static_cast<ibv_gid_type>(row.gid_type), row.ndev_ifindex});
  }
  return result;
}

/// How good a row is to speak from: RoCE v2 before the others, then `like`'s family if given, IPv4
/// before IPv6, link-local addresses last.
[[nodiscard]] inline int rank(const GidEntry& row, const std::optional<Gid>& like) {
  return (row.type == IBV_GID_TYPE_ROCE_V2 ? 8 : 0) +
         (like && like->is_ipv4() == row.gid.is_ipv4() ? 4 : 0) + (row.gid.is_ipv4() ? 2 : 0) +
         (row.gid.is_link_local() ? 0 : 1);
}

[[nodiscard]] inline GidEntry best_gid(ibv_context* context, std::uint8_t port,
                                       const std::optional<Gid>& like = std::nullopt) {
  const std::vector<GidEntry> rows = gid_table(context, port);
  if (rows.empty()) {
    throw Error{"ibv_query_gid_ex", concat(detail::device_of(context), ", port ", int{port}),
                ENODATA, "the port has no GID; give its network interface an address"};
  }
  const GidEntry* best = &rows.front();
  for (const GidEntry& row : rows) {
    if (rank(row, like) > rank(*best, like)) best = &row;
  }
  return *best;
}

}  // namespace rdma
