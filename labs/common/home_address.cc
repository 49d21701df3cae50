#include "labs/common/home_address.h"

#include "labs/common/child.h"
#include "rdma++/context.h"

namespace lab {

std::string home_address(const Options& options) {
  if (options.device.empty()) return "127.0.0.1";
  const rdma::Gid gid = in_child(
      options, [&] { return rdma::Context{rdma::Device::by_name(options.device)}.best_gid().gid; });
  check(!gid.is_link_local(),
        "{} has no address but {}, which is one only together with an interface; give its "
        "interface another, or start the ends apart: server, and client HOST",
        options.device, gid.to_string());
  return gid.to_string();
}

}  // namespace lab
