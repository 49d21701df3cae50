#include "labs/common/home_address.h"

#include "labs/common/child.h"
#include "rdma++/context.h"

namespace lab {

std::string home_address(const Options& options) {
  if (options.device.empty()) return "127.0.0.1";
  const rdma::Gid gid = in_child(
      options, [&] { return rdma::Context{rdma::Device::by_name(options.device)}.best_gid().gid; });
  check(!gid.is_link_local(),
        "{} has only the link-local address {}; give its interface another address, or start the "
        "ends separately: server, and client HOST",
        options.device, gid.to_string());
  return gid.to_string();
}

}  // namespace lab
