// What can be sent as it lies in memory.
#pragma once

#include <type_traits>

namespace rdma {

/// To a machine of the same byte order and layout.
template <class T>
concept Value = std::is_trivially_copyable_v<T>;

}  // namespace rdma
