#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"

namespace verbena::front {

namespace {

Result<ibv_gid_entry> gid_at(const Context& context, std::uint32_t port, std::uint32_t index) {
  if (const Status s = check_gid_index(context, port, index); !s) return s.error();
  ibv_gid_entry entry{};
  std::memcpy(entry.gid.raw, context.device.gids[index].bytes().data(), sizeof entry.gid.raw);
  entry.gid_index = index;
  entry.port_num = port;
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  entry.ndev_ifindex = context.device.interface_index;
  return entry;
}

/// A program may know a shorter or a longer entry than we do.
void copy_entry(const ibv_gid_entry& from, void* to, std::size_t size) {
  std::memset(to, 0, size);
  std::memcpy(to, &from, std::min(size, sizeof from));
}

}  // namespace

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  if (!is_ours(context)) {
    return real::call<"ibv_query_gid", "IBVERBS_1.1">(ibv_query_gid, context, port, index, gid);
  }
  return guarded_minus_one("ibv_query_gid", [&]() -> Status {
    const auto entry = gid_at(context_of(context), port, static_cast<std::uint32_t>(index));
    if (!entry) return entry.error();
    *gid = entry->gid;
    return Ok{};
  });
}

VERBENA_EXPORT int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                                     ibv_gid_entry* entry, std::uint32_t flags,
                                     std::size_t entry_size) {
  if (!is_ours(context)) {
    return real::call<"_ibv_query_gid_ex", "IBVERBS_1.11">(_ibv_query_gid_ex, context, port, index,
                                                           entry, flags, entry_size);
  }
  return guarded_status("ibv_query_gid_ex", [&]() -> Status {
    if (flags != 0) return Error{EOPNOTSUPP, fmt::format("flags {:#x}: must be 0", flags)};
    const auto found = gid_at(context_of(context), port, index);
    if (!found) return found.error();
    copy_entry(*found, entry, entry_size);
    return Ok{};
  });
}

VERBENA_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                            std::size_t max_entries, std::uint32_t flags,
                                            std::size_t entry_size) {
  if (!is_ours(context)) {
    return real::call<"_ibv_query_gid_table", "IBVERBS_1.11">(
        _ibv_query_gid_table, context, entries, max_entries, flags, entry_size);
  }
  const Context& ours = context_of(context);
  const std::size_t count = ours.device.gids.size();
  const int code = guarded_status("ibv_query_gid_table", [&]() -> Status {
    if (flags != 0) return Error{EOPNOTSUPP, fmt::format("flags {:#x}: must be 0", flags)};
    if (max_entries < count) {
      return Error{EINVAL,
                   fmt::format("room for {} entries, the table has {}", max_entries, count)};
    }
    auto* to = reinterpret_cast<std::byte*>(entries);
    for (std::uint32_t i = 0; i < count; ++i, to += entry_size) {
      const auto found = gid_at(ours, 1, i);
      if (!found) return found.error();
      copy_entry(*found, to, entry_size);
    }
    return Ok{};
  });
  return code == 0 ? static_cast<ssize_t>(count) : -code;
}
