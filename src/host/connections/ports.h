#pragma once

// Ports of rdma_cm, under the names by which the front knows them.

#include "wire/port_binding.h"

namespace verbena::host {

using AddressFamily = wire::Family;
using wire::BoundPort;
using wire::PortBinding;
using wire::PortId;

}  // namespace verbena::host
