#pragma once

// A question and its answer, to a peer that was unknown before: step 4.

#include "labs/ud/end.h"

namespace ud {

/// 4. An answer to whoever asks: the completion and the GRH make the address handle. The question
///    or the answer may be lost. Then the client asks again.
inline void answer_questions(End& end) {
  pollfd over{.fd = end.tcp.fd(), .events = POLLIN, .revents = 0};
  while (poll(&over, 1, 0) == 0) {
    const auto done = end.cq.wait(kQuiet);
    if (!done) continue;
    const auto question = end.port.take(*done);
    if (done->imm() != kQuestion) continue;  // of the burst, and late
    const auto back = rdma::AddressHandle::reply_to(end.pd, *done, question.data());
    end.message.bytes()[0] = question[kGrh];
    end.send(rdma::Send{end.message}.imm(done->imm()).to(back, done->src_qp, kQkey));
    end.port.refill();
  }
}

/// How often the client had to ask.
inline int ask(End& end, const rdma::AddressHandle& server) {
  for (int times = 1;; ++times) {
    lab::check(!rdma::Deadline{end.options.deadline}.passed(), "no answer to {} questions", times);
    end.message.bytes()[0] = std::byte{42};
    end.send(rdma::Send{end.message}.imm(kQuestion).to(server, end.peer.qpn, kQkey));
    const auto done = end.cq.wait(kQuiet);
    if (!done) continue;
    const auto answer = end.port.take(*done);
    lab::check(answer[kGrh] == std::byte{42} && done->src_qp == end.peer.qpn, "wrong answer");
    return times;
  }
}

}  // namespace ud
