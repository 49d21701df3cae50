#include "front/verbs/ah.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/nic.h"
#include "front/verbs/pd.h"
#include "front/verbs/qp_attributes.h"
#include "packet/grh.h"

namespace verbena::front {

namespace {

/// Whether librdmacm asks for a way to this very port: by its LID, without a GRH. Its datagram
/// sockets do so on every device. To programs such an address is none: RoCE has no LIDs.
bool is_own_lid(const ibv_ah_attr& attr, const void* caller) {
  if (attr.is_global != 0 || attr.dlid != 0) return false;
  Dl_info library{};
  return dladdr(caller, &library) != 0 && library.dli_fname != nullptr &&
         std::string_view{library.dli_fname}.find("/librdmacm.so") != std::string_view::npos;
}

engine::AddressVector path_to_self(const host::Device& device) {
  engine::AddressVector path;
  auto chosen = std::ranges::find_if(device.gids, &IpAddress::is_v4);
  if (chosen == device.gids.end()) {
    chosen = std::ranges::find_if(device.gids, [](const auto& g) { return g != IpAddress{}; });
  }
  if (chosen == device.gids.end()) return path;
  path.global = true;
  path.source_index = static_cast<std::uint8_t>(chosen - device.gids.begin());
  path.destination = *chosen;
  return path;
}

Result<ibv_ah*> create(ibv_pd* ibpd, const ibv_ah_attr& attr, const void* caller = nullptr) {
  Pd& pd = pd_of(ibpd);
  if (!is_live(pd.nic)) return inherited("the protection domain");
  Context& context = context_of(ibpd->context);
  if (const Status s = check_port(context, attr.port_num); !s) return s.error();
  const host::Device device = context.now();
  const Result<packet::Flow> flow =
      pd.nic->resolve(device, is_own_lid(attr, caller) ? path_to_self(device) : path_from_c(attr));
  if (!flow) return flow.error();
  auto ah = std::make_unique<Ah>();
  ah->context = ibpd->context;
  ah->pd = ibpd;
  ah->nic = pd.nic;
  ah->flow = *flow;
  const auto lock = lock_lists();
  context.objects.ahs.insert(ah.get());
  ++pd.address_handles;
  return ah.release();
}

/// Where to answer from: the address that the datagram came to. What came to a group is answered
/// from the first address of its family.
Result<std::uint8_t> answering_gid(const host::Device& device, const IpAddress& destination) {
  const auto found = std::find_if(device.gids.begin(), device.gids.end(), [&](const IpAddress& g) {
    if (!destination.is_multicast()) return g == destination;
    return g != IpAddress{} && g.is_v4() == destination.is_v4();
  });
  if (found != device.gids.end()) return static_cast<std::uint8_t>(found - device.gids.begin());
  return Error{EINVAL,
               fmt::format("the GRH says that the datagram came to {}, which is not a GID of {}",
                           destination.text(), device.name)};
}

Result<ibv_ah_attr> answer(const Context& context, std::uint8_t port, const ibv_wc& wc,
                           const ibv_grh* grh) {
  if (const Status s = check_port(context, port); !s) return s.error();
  if ((wc.wc_flags & IBV_WC_GRH) == 0) {
    return Error{EINVAL, "the completion has no GRH (IBV_WC_GRH); every datagram of RoCE has one"};
  }
  packet::Grh bytes{};
  static_assert(sizeof bytes == sizeof *grh);
  std::memcpy(bytes.data(), grh, sizeof bytes);
  const auto header = packet::read_grh(bytes);
  if (!header) return Error{EINVAL, "the GRH is neither an IPv6 nor an IPv4 header"};
  const Result<std::uint8_t> source = answering_gid(context.now(), header->destination);
  if (!source) return source.error();

  ibv_ah_attr attr{};
  attr.sl = wc.sl;
  attr.src_path_bits = wc.dlid_path_bits;
  attr.port_num = port;
  attr.is_global = 1;
  std::memcpy(attr.grh.dgid.raw, header->source.bytes().data(), sizeof attr.grh.dgid.raw);
  attr.grh.sgid_index = *source;
  attr.grh.traffic_class = header->traffic_class;
  attr.grh.flow_label = header->flow_label;
  attr.grh.hop_limit = 0xff;
  return attr;
}

}  // namespace

Status destroy(Ah* ah) {
  {
    const auto lock = lock_lists();
    --pd_of(ah->pd).address_handles;
    context_of(ah->context).objects.ahs.erase(ah);
  }
  delete ah;
  return Ok{};
}

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (!is_ours(pd)) return real::call<"ibv_create_ah", "IBVERBS_1.1">(ibv_create_ah, pd, attr);
  const void* const caller = __builtin_return_address(0);
  return guarded("ibv_create_ah", [&] { return create(pd, *attr, caller); });
}

VERBENA_EXPORT int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc,
                                       ibv_grh* grh, ibv_ah_attr* attr) {
  if (!is_ours(context)) {
    return real::call<"ibv_init_ah_from_wc", "IBVERBS_1.1">(ibv_init_ah_from_wc, context, port, wc,
                                                            grh, attr);
  }
  return guarded_minus_one("ibv_init_ah_from_wc", [&]() -> Status {
    const auto made = answer(context_of(context), port, *wc, grh);
    if (!made) return made.error();
    *attr = *made;
    return Ok{};
  });
}

VERBENA_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh,
                                             std::uint8_t port) {
  if (!is_ours(pd)) {
    return real::call<"ibv_create_ah_from_wc", "IBVERBS_1.1">(ibv_create_ah_from_wc, pd, wc, grh,
                                                              port);
  }
  return guarded("ibv_create_ah_from_wc", [&]() -> Result<ibv_ah*> {
    const auto attr = answer(context_of(pd->context), port, *wc, grh);
    if (!attr) return attr.error();
    return create(pd, *attr);
  });
}

VERBENA_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  if (!is_ours(ah)) return real::call<"ibv_destroy_ah", "IBVERBS_1.1">(ibv_destroy_ah, ah);
  return guarded_status("ibv_destroy_ah", [&] { return destroy(static_cast<Ah*>(ah)); });
}
