// Lab: cm
//
// Learn: what rdma_cm does between "connect to that host" and two queue pairs in RTS: each call and
//        each event in its order, what an event carries and who acknowledges it, private data both
//        ways, and the order in which all of it is taken down. In C, with nothing in between.
// Run:   verbena lab cm                     both ends on this machine
//        verbena lab cm server | verbena lab cm client HOST
// Try:   --break NAME, a wrong order and what comes of it; --endpoint, the same in fewer calls
//
// The story is in server.c and client.c. This file reads the command line.

#include "labs/cm/cm.h"
#include "labs/common/home_address.h"
#include "labs/common/lab.h"

namespace {

using Story = void (*)(const lab_options*);

Story wrong_order = nullptr;
bool endpoint = false;

void tell(Story story, const lab::Options& options) {
  const lab_options c = lab::for_c(options);
  story(&c);
}

void server(const lab::Options& options) {
  tell(endpoint ? cm_endpoint_server : cm_server, options);
}
void client(const lab::Options& options) {
  tell(endpoint ? cm_endpoint_client : cm_client, options);
}

/// Both ends in one process, so that one page shows who does what.
void one_process(const lab::Options& given) {
  lab::Options options = given;
  options.host = lab::home_address(options);
  options.port = 0;  // any free one
  tell(wrong_order, options);
}

void add_options(lab::OwnOptions& own) {
  own.choice("--break", wrong_order,
             {{"route-first", cm_break_route_first},
              {"connect-first", cm_break_connect_first},
              {"connect-without-qp", cm_break_connect_without_qp},
              {"accept-without-qp", cm_break_accept_without_qp},
              {"listen-first", cm_break_listen_first},
              {"bind-twice", cm_break_bind_twice},
              {"no-listener", cm_break_no_listener},
              {"refuse", cm_break_refuse},
              {"too-much-data", cm_break_too_much_data},
              {"disconnect-first", cm_break_disconnect_first},
              {"ack-late", cm_break_ack_late},
              {"cq-first", cm_break_cq_first},
              {"pd-first", cm_break_pd_first}},
             "Do this in a wrong order, in one process, and show what comes of it");
  own.flag("--endpoint", endpoint, "By rdma_create_ep, which waits by itself");
  own.finally([] {
    return wrong_order != nullptr && endpoint ? "--break and --endpoint: choose one" : "";
  });
}

}  // namespace

int main(int argc, char** argv) {
  const lab::Defaults defaults{.name = "cm",
                               .idea = "rdma_cm step by step, in C: each call, each event",
                               .size = 64,
                               .most = kMost,
                               .without = {"--iters"},
                               .more = add_options};
  const bool breaks = std::any_of(argv + 1, argv + argc, [](std::string_view argument) {
    return argument.starts_with("--break");
  });
  return breaks ? lab::run_alone(argc, argv, defaults, one_process)
                : lab::run(argc, argv, defaults, server, client);
}
