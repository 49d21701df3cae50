#pragma once

// Ports of rdma_cm, under the names by which the front knows them.

#include "registry/port_binding.h"

namespace verbena::host {

using AddressFamily = registry::Family;
using registry::BoundPort;
using registry::PortBinding;
using registry::PortId;

}  // namespace verbena::host
