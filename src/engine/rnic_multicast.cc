// Membership of UD queue pairs in multicast groups.

#include <algorithm>
#include <cerrno>
#include <new>

#include "engine/rnic.h"
#include "engine/setup_error.h"

namespace verbena::engine {

Status Rnic::attach_multicast(QueuePair& qp, const IpAddress& group) try {
  if (qp.type != QpType::ud) return Error{EINVAL, "only UD queue pairs join multicast groups"};
  const auto it = multicast_.find(group);
  if (it == multicast_.end()) {
    if (multicast_.size() >= Limits::kMaxMulticastGroups) {
      return Error{ENOMEM, "all multicast groups are in use"};
    }
    multicast_.emplace(group, std::vector<QueuePair*>{&qp});
    return Ok{};
  }
  auto& members = it->second;
  if (std::find(members.begin(), members.end(), &qp) != members.end()) return Ok{};
  if (members.size() >= Limits::kMaxMulticastMembers) {
    return Error{ENOMEM, "the multicast group is full"};
  }
  members.push_back(&qp);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Rnic::detach_multicast(QueuePair& qp, const IpAddress& group) try {
  const auto it = multicast_.find(group);
  if (it == multicast_.end() || std::erase(it->second, &qp) == 0) {
    return Error{EINVAL, "not a member of the multicast group"};
  }
  if (it->second.empty()) multicast_.erase(it);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace verbena::engine
