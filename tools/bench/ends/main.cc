// The ends of one measurement. `verbena bench` starts this program; it is not for people.
//
//   ends here SPEC                 both ends on this machine
//   ends drive HOST PORT SPEC      one measurement with the server of that host
//   ends serve PORT                serves until it is ended
//
// In front of each may stand --device NAME.
// Prints one line of JSON: {"sample": …, "devices": […]}, {"skipped": why}, {"failed": why} or
// {"unreachable": why}.

#include <fmt/format.h>
#include <netdb.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "tools/bench/ends/ends.h"

namespace verbena::bench {
namespace {

/// Both ends say this first; the number changes when what they say afterwards does.
constexpr std::string_view kGreeting = "verbena bench 1";

struct Pair {
  std::string_view transport, test;
  Outcome (*drive)(const Spec&, Meeting&);
  std::string (*serve)(const Spec&, Meeting&);
};

constexpr Pair kPairs[] = {
    {"rdma", "bandwidth", drive_rdma_bandwidth, serve_rdma_bandwidth},
    {"rdma", "latency", drive_rdma_latency, serve_rdma_latency},
    {"tcp", "bandwidth", drive_tcp_bandwidth, serve_tcp_bandwidth},
    {"tcp", "latency", drive_tcp_latency, serve_tcp_latency},
    {"udp", "bandwidth", drive_udp_bandwidth, serve_udp_bandwidth},
    {"udp", "latency", drive_udp_latency, serve_udp_latency},
};

const Pair& pair_of(const Spec& spec) {
  if (auto problem = problem_of(spec); !problem.empty()) throw Failed{problem};
  for (const Pair& pair : kPairs) {
    if (pair.transport == spec.transport && pair.test == spec.test) return pair;
  }
  throw Failed{fmt::format("two ends can't measure the {} of {}", spec.test, spec.transport)};
}

/// For the device of this process, which looks at it when it is opened.
void set_wire(const Spec& spec) {
  if (!spec.wire.empty() && spec.wire != "auto") setenv("VERBENA_WIRE", spec.wire.c_str(), 1);
}

void set_loss(const Spec& spec) {
  if (spec.loss_percent == 0) return;
  const char* const others = std::getenv("VERBENA_FAULTS");
  const std::string before = others == nullptr ? "" : fmt::format("{},", others);
  setenv("VERBENA_FAULTS", fmt::format("{}drop={:g}%", before, spec.loss_percent).c_str(), 1);
}

// ---------------------------------------------------------------- one end

nlohmann::json drive(const Spec& spec, const Socket& found, Control& control,
                     const std::string& device) {
  set_wire(spec);
  set_loss(spec);
  control.send(kGreeting);
  control.send(nlohmann::json(spec).dump());
  if (control.recv() != kGreeting) {
    throw Failed{"the server is of another version of Verbena; install the same one on both hosts"};
  }
  Meeting meeting{control, nullptr, found.peer(), device};
  const Outcome outcome = pair_of(spec).drive(spec, meeting);
  const std::string theirs = control.recv();
  return {{"sample", outcome.sample}, {"devices", {outcome.device, theirs}}};
}

void serve(const Socket& listener, Control& control, const std::string& device) {
  if (control.recv() != kGreeting) {
    throw Failed{"the client is of another version of Verbena; install the same one on both hosts"};
  }
  const Spec spec = nlohmann::json::parse(control.recv()).get<Spec>();
  const Pair& pair = pair_of(spec);
  set_wire(spec);
  control.send(kGreeting);
  Meeting meeting{control, &listener, {}, device};
  control.send(pair.serve(spec, meeting));
}

/// Runs one end and tells the other how it failed.
nlohmann::json guarded(Control& control, const std::function<nlohmann::json()>& end) {
  try {
    return end();
  } catch (const Skipped& why) {
    control.send_skip(why.what());
    return {{"skipped", why.what()}};
  } catch (const std::exception& why) {
    control.send_failure(why.what());
    return {{"failed", why.what()}};
  }
}

/// In a process of its own, which a fresh device needs. Returns its pid.
pid_t fork_server(const Socket& listener, Socket& socket, const std::string& device) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  unsetenv("VERBENA_STATS");  // the other end's
  int status = 0;
  {
    Control control{std::move(socket)};
    const auto said = guarded(control, [&]() -> nlohmann::json {
      serve(listener, control, device);
      return {};
    });
    if (said.contains("failed")) {
      fmt::print(stderr, "verbena bench server: {}\n", said["failed"].get<std::string>());
      status = 1;
    }
  }
  std::exit(status);
}

// ---------------------------------------------------------------- the modes

/// An end that spins would outlive the program that wants its figures.
void end_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

int here(const Spec& spec, const std::string& device) {
  end_with_parent();
  const Socket listener = listen_on(0, /*loopback_only=*/true);
  Socket client = connect_to(listener.local(), Control::kPatience);
  Socket server = accept_from(listener, Control::kPatience);
  if (server.peer().to_string() != client.local().to_string()) {
    throw Failed{"another program connected to the port of this measurement"};
  }
  fork_server(listener, server, device);
  { const Socket gone{std::move(server)}; }
  Control control{std::move(client)};
  const auto said =
      guarded(control, [&] { return drive(spec, control.socket(), control, device); });
  fmt::print("{}\n", said.dump());
  return 0;
}

rdma::SocketAddress address_of(const std::string& host, std::uint16_t port) {
  try {
    return rdma::SocketAddress::of(host, port);
  } catch (const rdma::Error& error) {
    throw Unreachable{error.what()};
  }
}

int drive_with(const std::string& host, std::uint16_t port, const Spec& spec,
               const std::string& device) {
  end_with_parent();
  try {
    Control control{connect_to(address_of(host, port), Control::kPatience)};
    const auto said =
        guarded(control, [&] { return drive(spec, control.socket(), control, device); });
    fmt::print("{}\n", said.dump());
  } catch (const Unreachable& why) {
    fmt::print("{}\n", nlohmann::json{{"unreachable", why.what()}}.dump());
  }
  return 0;
}

int serve_on(std::uint16_t port, const std::string& device) {
  const Socket listener = listen_on(port, /*loopback_only=*/false);
  fmt::print("waiting for \"verbena bench HOST\" on TCP and UDP port {}; Ctrl-C ends it\n",
             listener.local().port());
  std::fflush(stdout);
  for (;;) {
    Socket guest = accept_from(listener, rdma::Deadline::never());
    const pid_t child = fork_server(listener, guest, device);
    if (child < 0) throw Failed{fmt::format("fork: {}", std::strerror(errno))};
    // One measurement at a time: two would measure each other.
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

std::uint16_t port_of(const std::string& text) {
  std::uint16_t port = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (problem != std::errc{} || end != text.data() + text.size()) {
    throw Failed{fmt::format("\"{}\" is no port", text)};
  }
  return port;
}

int run(std::vector<std::string> words) {
  std::string device;
  if (words.size() > 1 && words[0] == "--device") {
    device = words[1];
    words.erase(words.begin(), words.begin() + 2);
  }
  const auto spec = [&](std::size_t at) { return nlohmann::json::parse(words.at(at)).get<Spec>(); };
  if (words.size() == 2 && words[0] == "here") return here(spec(1), device);
  if (words.size() == 4 && words[0] == "drive") {
    return drive_with(words[1], port_of(words[2]), spec(3), device);
  }
  if (words.size() == 2 && words[0] == "serve") return serve_on(port_of(words[1]), device);
  throw Failed{"\"verbena bench\" starts this program"};
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  try {
    return verbena::bench::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    // A mode that prints JSON has not printed any yet.
    fmt::print("{}\n", nlohmann::json{{"failed", error.what()}}.dump());
    return 1;
  }
}
