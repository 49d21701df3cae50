#pragma once

#include "base/ip_address.h"

namespace verbena {

/// An address of this machine. `interface` is the scope of a link-local one.
struct LocalAddress {
  IpAddress address;
  unsigned interface = 0;
};

}  // namespace verbena
