// Who may do what with registered memory.
#pragma once

#include <infiniband/verbs.h>

#include <string>

namespace rdma {

/// Rights of a region, a window or a queue pair; combine with |. Local reading is always allowed.
enum class Access : unsigned {
  none = 0,
  local_write = IBV_ACCESS_LOCAL_WRITE,  ///< receives, READ results and atomics land there
  remote_write = IBV_ACCESS_REMOTE_WRITE,
  remote_read = IBV_ACCESS_REMOTE_READ,
  remote_atomic = IBV_ACCESS_REMOTE_ATOMIC,
  bind_window = IBV_ACCESS_MW_BIND,
  zero_based = IBV_ACCESS_ZERO_BASED,
  on_demand = IBV_ACCESS_ON_DEMAND,
  huge_pages = IBV_ACCESS_HUGETLB,
  relaxed_ordering = IBV_ACCESS_RELAXED_ORDERING,
  remote = remote_write | remote_read | remote_atomic,
};

[[nodiscard]] constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
[[nodiscard]] constexpr Access operator&(Access a, Access b) {
  return static_cast<Access>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}
[[nodiscard]] constexpr bool has(Access all, Access wanted) { return (all & wanted) == wanted; }
[[nodiscard]] constexpr bool overlaps(Access a, Access b) { return (a & b) != Access::none; }

/// ibv_reg_mr(3): remote write and remote atomic need local write.
[[nodiscard]] constexpr Access with_implied(Access access) {
  return overlaps(access, Access::remote_write | Access::remote_atomic)
             ? access | Access::local_write
             : access;
}

/// For the verbs that want an int.
[[nodiscard]] constexpr int bits(Access access) { return static_cast<int>(access); }

/// "local_write|remote_read"
[[nodiscard]] inline std::string to_string(Access access) {
  static constexpr struct {
    Access bit;
    const char* name;
  } kNames[] = {{Access::local_write, "local_write"},
                {Access::remote_write, "remote_write"},
                {Access::remote_read, "remote_read"},
                {Access::remote_atomic, "remote_atomic"},
                {Access::bind_window, "bind_window"},
                {Access::zero_based, "zero_based"},
                {Access::on_demand, "on_demand"},
                {Access::huge_pages, "huge_pages"},
                {Access::relaxed_ordering, "relaxed_ordering"}};
  std::string result;
  for (const auto& [bit, name] : kNames) {
    if (!has(access, bit)) continue;
    if (!result.empty()) result += '|';
    result += name;
  }
  return result.empty() ? "none" : result;
}

}  // namespace rdma
