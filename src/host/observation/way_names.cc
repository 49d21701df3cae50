#include "host/observation/way_names.h"

namespace verbena::host {

using packet::Detour;
using packet::Way;

std::string_view name_of(Way way) { return way == Way::host ? "shm" : "udp"; }

std::string_view name_of(Detour detour) {
  switch (detour) {
    case Detour::unknown:
    case Detour::none:
      return "";
    case Detour::other_host:
      return "other_host";
    case Detour::peer_declines:
      return "peer_declines";
    case Detour::no_memory:
      return "no_memory";
    case Detour::capture:
      return "capture";
    case Detour::faults:
      return "faults";
    case Detour::settings:
      return "settings";
  }
  return "";
}

std::string_view text_of(Detour detour) {
  switch (detour) {
    case Detour::unknown:
    case Detour::none:
      return "";
    case Detour::other_host:
      return "the peer is not a process of this user in this network namespace, or doesn't receive "
             "at that address";
    case Detour::peer_declines:
      return "the peer declines (--pcap, --faults or --wire udp there, or no memory or "
             "descriptors)";
    case Detour::no_memory:
      return "no memory or descriptors";
    case Detour::capture:
      return "--pcap";
    case Detour::faults:
      return "--faults";
    case Detour::settings:
      return "--wire udp";
  }
  return "";
}

}  // namespace verbena::host
