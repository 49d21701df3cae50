#pragma once

// Queries that inlined verbs call through the context's table. The caller says how much room
// it has: programs may be older or newer than we are.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace verbena::front {

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t length);
/// The clock of completion timestamps, in its ticks.
int query_rt_values(ibv_context* context, ibv_values_ex* values);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t length);

}  // namespace verbena::front
