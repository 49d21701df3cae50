// Lab: verbs
//
// Learn: the structs of the data path, filled by hand: ibv_sge, ibv_send_wr, ibv_recv_wr, and what
//        comes back in ibv_wc, field by field, for SEND, WRITE, READ and atomics. What bad_wr is
//        for. Which fields of a completion are valid when. In C, with libibverbs alone.
// Run:   verbena lab verbs
// Try:   --size 1M; --drop 5%; --pcap verbs.pcapng
//
// The story is in requests.c and refused.c. This file reads the command line.

#include "labs/common/lab.h"
#include "labs/verbs/verbs.h"

namespace {

void story(const lab::Options& options) {
  const lab_options c = lab::for_c(options);
  verbs_pair pair{};
  verbs_open(&pair, &c);
  verbs_send(&pair);
  verbs_send_with_imm(&pair);
  verbs_write(&pair);
  verbs_read(&pair);
  verbs_atomics(&pair);
  verbs_refused_in_the_middle(&pair);
  verbs_refused_receive(&pair);
  verbs_failure(&pair);
  verbs_close(&pair);
  lab_shown(
      "SEND, WRITE, READ, atomics by hand; bad_wr in a chain; each completion field by field");
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run_alone(
      argc, argv,
      {.name = "verbs",
       .idea = "The structs of the data path by hand, in C: requests, bad_wr, ibv_wc",
       .size = 64,
       .least = 32,
       .most = kMost,
       .without = {"--port", "--iters"}},
      story);
}
