#include "tools/doctor/same_host_check.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>

#include "tools/doctor/child.h"
#include "tools/doctor/text.h"

namespace verbena::doctor {

Finding judge_same_host(const SameHost& found) {
  const ConnectionProbe& c = found.connection;
  const bool connected = c.answer == Answer::established && c.small_back && c.large_back;
  if (connected && c.way == "shm") {
    return fine("same-host", fmt::format("two of your processes exchanged messages by shared "
                                         "memory; {}",
                                         found.restrictions));
  }
  const std::string refused = found.ring.error == 0
                                  ? ""
                                  : fmt::format("; the kernel refuses {}: {}", found.ring.call,
                                                std::strerror(found.ring.error));
  std::vector<Mend> mends;  // else the problem itself names the next step
  if (found.ring.error != 0 && found.seccomp) {
    mends = {{"docker run --security-opt seccomp=unconfined …", false,
              "the host that starts this container"}};
  }
  if (connected) {
    return warning("same-host",
                   fmt::format("two of your processes exchanged messages by UDP, not by shared "
                               "memory{}; {}",
                               refused, found.restrictions),
                   "Messages between processes of one host are slower.", std::move(mends));
  }
  return failure(
      "same-host",
      fmt::format("two of your processes can't exchange messages: {}{}; {}",
                  c.problem.empty() ? "no answer" : c.problem, refused, found.restrictions),
      "Programs fail in the same way.", std::move(mends));
}

SameHostCheck check_same_host(const std::string& address) {
  constexpr auto kReadyPatience = std::chrono::seconds{10};
  SameHostCheck result;
  SameHost found;
  found.ring = probe_ring();
  found.restrictions = restrictions();
  found.seccomp = has_seccomp_filter();
  if (address.empty()) {
    // Without a device. If the kernel refuses what we need, that is why.
    found.connection.problem = "there is no device";
    if (found.ring.error != 0) result.finding = judge_same_host(found);
    return result;
  }
  Child listener{verbena_with({"doctor", "--listen", "--port", "0", "--at", address, "--json"})};
  const auto line = listener.first_line(kReadyPatience);
  const auto ready = nlohmann::json::parse(line.value_or(""), nullptr, false);
  if (ready.is_object()) {
    const auto& buffers = ready.at("buffers");
    result.facts.buffers = {buffers.at("receive"), buffers.at("send")};
    result.facts.version = first_line_of(ready.at("version").get<std::string>());
    result.facts.gpu_memory = ready.at("gpu_memory");
    found.connection = probe_in_child(address, ready.at("port").get<std::uint16_t>());
  } else {
    found.connection.problem = listener.end().errors;
    while (found.connection.problem.ends_with('\n')) found.connection.problem.pop_back();
  }
  result.finding = judge_same_host(found);
  return result;
}

}  // namespace verbena::doctor
