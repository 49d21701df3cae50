#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"

namespace verbena::front {

namespace {

ibv_gid_entry entry_of(const host::Device& device, std::uint32_t index) {
  ibv_gid_entry entry{};
  std::memcpy(entry.gid.raw, device.gids[index].bytes().data(), sizeof entry.gid.raw);
  entry.gid_index = index;
  entry.port_num = 1;
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  entry.ndev_ifindex = device.interface_index;
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
    const auto found = gid_at(context_of(context), port, static_cast<std::uint32_t>(index));
    if (!found) return found.error();
    std::memcpy(gid->raw, found->bytes().data(), sizeof gid->raw);
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
    const Context& ours = context_of(context);
    if (Status s = check_port(ours, port); !s) return s;
    const host::Device device = ours.now();
    if (index >= device.gids.size()) {
      return Error{EINVAL,
                   fmt::format("GID index {}: {} has {}", index, device.name, device.gids.size())};
    }
    // As the kernel: an entry without an address is no error of the caller's, and says nothing.
    if (device.gids[index] == IpAddress{}) return Error{ENODATA, ""};
    copy_entry(entry_of(device, index), entry, entry_size);
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
  ssize_t count = 0;
  const int code = guarded_status("ibv_query_gid_table", [&]() -> Status {
    if (flags != 0) return Error{EOPNOTSUPP, fmt::format("flags {:#x}: must be 0", flags)};
    const host::Device device = context_of(context).now();
    auto* to = reinterpret_cast<std::byte*>(entries);
    for (std::uint32_t i = 0; i < device.gids.size(); ++i) {
      if (device.gids[i] == IpAddress{}) continue;
      if (static_cast<std::size_t>(count) == max_entries) {
        return Error{EINVAL, fmt::format("room for {} entries, the table has more", max_entries)};
      }
      copy_entry(entry_of(device, i), to, entry_size);
      to += entry_size;
      ++count;
    }
    return Ok{};
  });
  return code == 0 ? count : -code;
}
