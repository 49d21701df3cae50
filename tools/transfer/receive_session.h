#pragma once

// One sender, from its connection to its goodbye.

#include <array>
#include <cstdint>
#include <optional>

#include "rdma++/listener.h"
#include "tools/transfer/folder.h"
#include "tools/transfer/options.h"
#include "tools/transfer/placement.h"
#include "tools/transfer/same_user.h"

namespace verbena::transfer {

struct SessionSettings {
  const CommonOptions& common;
  Overwrite overwrite = Overwrite::refuse;
  bool sync = true;
  unsigned queue_pairs = 0;
  std::uint64_t window = 0;  // bytes of all slots
};

/// What sessions of one receiver share.
struct SessionContext {
  const SessionSettings& settings;
  Folder& folder;
  rdma::Listener& listener;
  SameUserDoor& door;
  const std::optional<Secret>& key;
};

inline constexpr int kNotServed = -1;  // it wasn't let in

/// The exit status, or kNotServed.
[[nodiscard]] int serve(rdma::ConnectionRequest& request, const SessionContext& context);

/// Words for a rejected connection.
[[nodiscard]] std::span<const std::byte> rejection(std::string_view words);

}  // namespace verbena::transfer
