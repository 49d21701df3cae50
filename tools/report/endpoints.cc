#include "tools/report/endpoints.h"

namespace verbena::report {

std::uint32_t Endpoints::traced(std::uint32_t observer, std::uint32_t qpn) {
  const auto [found, is_new] = traced_.try_emplace({observer, qpn}, count());
  if (is_new) {
    all_.push_back({.qpn = qpn, .observer = observer});
    by_number_.emplace(qpn, found->second);
  }
  return found->second;
}

std::uint32_t Endpoints::shared(std::uint32_t observer, std::uint32_t number) {
  const auto [found, is_new] = shared_.try_emplace({observer, number}, count());
  if (is_new) {
    all_.push_back({.qpn = number, .observer = observer, .type = "SRQ", .shared = true});
  }
  return found->second;
}

std::uint32_t Endpoints::addressed(std::string_view address, std::uint32_t qpn) {
  if (address.empty()) {
    const auto any = by_number_.find(qpn);
    if (any != by_number_.end()) return any->second;
  }
  const auto [found, is_new] = addressed_.try_emplace({address, qpn}, count());
  if (is_new) {
    all_.push_back({.qpn = qpn, .address = address});
    by_number_.emplace(qpn, found->second);
  }
  return found->second;
}

void Endpoints::name(std::uint32_t place, std::string_view address) {
  all_[place].address = address;
  addressed_.try_emplace({address, all_[place].qpn}, place);
}

void Endpoints::pair(std::uint32_t a, std::uint32_t b) {
  all_[a].peer = b;
  all_[b].peer = a;
}

std::uint32_t Endpoints::peer_of_connected(std::uint32_t place) {
  const Endpoint me = all_[place];
  const auto [begin, end] = by_number_.equal_range(me.peer_qpn);
  for (auto i = begin; i != end; ++i) {
    const Endpoint& other = all_[i->second];
    if (other.observer != kNone && other.peer_qpn == me.qpn && other.address == me.peer_address &&
        other.peer_address == me.address) {
      return i->second;
    }
  }
  return addressed(me.peer_address, me.peer_qpn);
}

}  // namespace verbena::report
