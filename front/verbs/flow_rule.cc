#include "front/verbs/flow_rule.h"

#include <endian.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

namespace verbena::front {

namespace {

using packet::FrameLayer;
using packet::HeaderPattern;

/// Into the same place of value and mask. The verbs have all fields in the wire's order.
template <typename Field>
void put(HeaderPattern& p, std::size_t at, const Field& value, const Field& mask) {
  static_assert(sizeof(Field) <= HeaderPattern::kSize);
  std::memcpy(p.value.data() + at, &value, sizeof value);
  std::memcpy(p.mask.data() + at, &mask, sizeof mask);
}

HeaderPattern pattern_of(const ibv_flow_spec_eth& s) {
  HeaderPattern p{.layer = FrameLayer::ethernet};
  put(p, 0, s.val.dst_mac, s.mask.dst_mac);
  put(p, sizeof s.val.dst_mac, s.val.src_mac, s.mask.src_mac);
  put(p, packet::kEthernetType, s.val.ether_type, s.mask.ether_type);
  put(p, packet::kVlanTag, s.val.vlan_tag, s.mask.vlan_tag);
  return p;
}

// Offsets in the IPv4 header.
enum Ipv4 : std::size_t {
  kTos = 1,
  kFlags = 6,
  kTtl = 8,
  kProtocol = 9,
  kSource = 12,
  kDestination = 16
};

HeaderPattern pattern_of(const ibv_flow_spec_ipv4& s) {
  HeaderPattern p{.layer = FrameLayer::ipv4};
  put(p, Ipv4::kSource, s.val.src_ip, s.mask.src_ip);
  put(p, Ipv4::kDestination, s.val.dst_ip, s.mask.dst_ip);
  return p;
}

/// The verbs number the flags themselves: don't fragment, more fragments.
std::uint8_t ipv4_flags(std::uint8_t verbs) {
  return static_cast<std::uint8_t>(((verbs & 2) != 0 ? 0x40 : 0) | ((verbs & 4) != 0 ? 0x20 : 0));
}

HeaderPattern pattern_of(const ibv_flow_spec_ipv4_ext& s) {
  HeaderPattern p{.layer = FrameLayer::ipv4};
  put(p, Ipv4::kSource, s.val.src_ip, s.mask.src_ip);
  put(p, Ipv4::kDestination, s.val.dst_ip, s.mask.dst_ip);
  put(p, Ipv4::kProtocol, s.val.proto, s.mask.proto);
  put(p, Ipv4::kTos, s.val.tos, s.mask.tos);
  put(p, Ipv4::kTtl, s.val.ttl, s.mask.ttl);
  put(p, Ipv4::kFlags, ipv4_flags(s.val.flags), ipv4_flags(s.mask.flags));
  return p;
}

/// Version (4 bits), traffic class (8), flow label (20).
std::uint32_t ipv6_first_word(const ibv_flow_ipv6_filter& f) {
  return htobe32(std::uint32_t{f.traffic_class} << 20) | (f.flow_label & htobe32(0xf'ffff));
}

HeaderPattern pattern_of(const ibv_flow_spec_ipv6& s) {
  HeaderPattern p{.layer = FrameLayer::ipv6};
  put(p, 0, ipv6_first_word(s.val), ipv6_first_word(s.mask));
  put(p, 6, s.val.next_hdr, s.mask.next_hdr);
  put(p, 7, s.val.hop_limit, s.mask.hop_limit);
  put(p, 8, s.val.src_ip, s.mask.src_ip);
  put(p, 24, s.val.dst_ip, s.mask.dst_ip);
  return p;
}

HeaderPattern pattern_of(const ibv_flow_spec_tcp_udp& s) {
  HeaderPattern p{.layer = s.type == IBV_FLOW_SPEC_TCP ? FrameLayer::tcp : FrameLayer::udp};
  put(p, 0, s.val.src_port, s.mask.src_port);
  put(p, 2, s.val.dst_port, s.mask.dst_port);
  return p;
}

// What a specification asks for and no header says.
template <typename Spec>
Status check_spec(const Spec&) {
  return Ok{};
}
Status check_spec(const ibv_flow_spec_ipv4_ext& s) {
  if ((s.mask.flags & ~6) == 0) return Ok{};
  return Error{EINVAL,
               fmt::format("flags mask {:#x}: 2 (don't fragment) and 4 (more fragments) are "
                           "known",
                           s.mask.flags)};
}

Status check_size(std::uint16_t size, std::size_t needed) {
  if (size == needed) return Ok{};
  return Error{EINVAL, fmt::format("size {}: must be {}", size, needed)};
}

/// The specification that begins at `at`, of which `size` bytes are there.
template <typename Spec>
Status add(const std::byte* at, std::uint16_t size, host::FlowRule& rule) {
  Spec spec;
  if (Status s = check_size(size, sizeof spec); !s) return s;
  std::memcpy(&spec, at, sizeof spec);
  if (Status s = check_spec(spec); !s) return s;
  rule.patterns.push_back(pattern_of(spec));
  return Ok{};
}

Status add_spec(std::uint32_t type, std::uint16_t size, const std::byte* at, host::FlowRule& rule) {
  switch (type) {
    case IBV_FLOW_SPEC_ETH:
      return add<ibv_flow_spec_eth>(at, size, rule);
    case IBV_FLOW_SPEC_IPV4:
      return add<ibv_flow_spec_ipv4>(at, size, rule);
    case IBV_FLOW_SPEC_IPV4_EXT:
      return add<ibv_flow_spec_ipv4_ext>(at, size, rule);
    case IBV_FLOW_SPEC_IPV6:
      return add<ibv_flow_spec_ipv6>(at, size, rule);
    case IBV_FLOW_SPEC_TCP:
    case IBV_FLOW_SPEC_UDP:
      return add<ibv_flow_spec_tcp_udp>(at, size, rule);
    case IBV_FLOW_SPEC_ACTION_DROP:
      rule.drops = true;
      return check_size(size, sizeof(ibv_flow_spec_action_drop));
    default:
      return Error{EOPNOTSUPP,
                   fmt::format("type {:#x} is not supported; ETH, IPV4, IPV4_EXT, IPV6, TCP, UDP "
                               "and ACTION_DROP are",
                               type)};
  }
}

host::FlowRule::Kind kind_of(ibv_flow_attr_type type) {
  using Kind = host::FlowRule::Kind;
  switch (type) {
    case IBV_FLOW_ATTR_ALL_DEFAULT:
      return Kind::all_default;
    case IBV_FLOW_ATTR_MC_DEFAULT:
      return Kind::multicast_default;
    case IBV_FLOW_ATTR_SNIFFER:
      return Kind::sniffer;
    case IBV_FLOW_ATTR_NORMAL:
      break;
  }
  return Kind::normal;
}

Status check(const ibv_flow_attr& attr) {
  if (attr.comp_mask != 0) {
    return Error{EINVAL, fmt::format("comp_mask {:#x}: must be 0", attr.comp_mask)};
  }
  if (attr.type > IBV_FLOW_ATTR_SNIFFER) {
    return Error{EINVAL, fmt::format("type {}: must be between 0 and {}", int{attr.type},
                                     int{IBV_FLOW_ATTR_SNIFFER})};
  }
  if (const auto bits = attr.flags & ~std::uint32_t{IBV_FLOW_ATTR_FLAGS_DONT_TRAP}; bits != 0) {
    return Error{EOPNOTSUPP, fmt::format("flags {:#x}: {:#x} is not supported", attr.flags, bits)};
  }
  if (attr.type != IBV_FLOW_ATTR_NORMAL && (attr.num_of_specs != 0 || attr.flags != 0)) {
    return Error{EINVAL, fmt::format("num_of_specs {}, flags {:#x}: only a rule of type NORMAL has "
                                     "any",
                                     attr.num_of_specs, attr.flags)};
  }
  return Ok{};
}

}  // namespace

Result<host::FlowRule> rule_from_c(const ibv_flow_attr& attr) {
  if (const Status s = check(attr); !s) return s.error();
  host::FlowRule rule{.kind = kind_of(attr.type),
                      .priority = attr.priority,
                      .goes_on = (attr.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP) != 0};
  // They lie one behind another, each as long as it says.
  const auto* at = reinterpret_cast<const std::byte*>(&attr + 1);
  for (unsigned i = 0; i < attr.num_of_specs; ++i) {
    decltype(ibv_flow_spec::hdr) head;
    std::memcpy(&head, at, sizeof head);
    if (const Status s = add_spec(head.type, head.size, at, rule); !s) {
      return Error{s.error().code, fmt::format("specification {} of {}: {}", i + 1,
                                               attr.num_of_specs, s.error().message)};
    }
    at += head.size;
  }
  return rule;
}

}  // namespace verbena::front
