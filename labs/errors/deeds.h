#pragma once

// What is done wrong at either end: steps 2 and 3.

#include "labs/errors/cases.h"
#include "labs/errors/victim.h"

namespace errors {

/// 2. The server's part: what the client finds when it posts.
inline void prepare(Victim& victim, Deed deed) {
  if (deed == Deed::nobody) return victim.qp().to_reset();
  if (deed != Deed::no_receive) victim.qp().post(rdma::Recv{victim.in()}.id(7)).check();
}

/// 3. The deed, and behind it an innocent request.
inline void post(Victim& victim, Deed deed) {
  const rdma::Slice fits = victim.out().slice(0, victim.in().size()), all = victim.out();
  const rdma::Send innocent = rdma::Send{fits}.id(2);
  switch (deed) {
    case Deed::too_long:
      return victim.qp().post(rdma::Send{all}.id(1), innocent).check();
    case Deed::not_allowed:
      return victim.qp().post(rdma::Write{fits, victim.remote()}.id(1), innocent).check();
    case Deed::past_own: {
      const rdma::Slice more{all.addr, all.length + 1, all.lkey};
      return victim.qp().post(rdma::Send{more}.id(1), innocent).check();
    }
    case Deed::past_theirs:
      return victim.qp().post(rdma::Write{all, victim.remote()}.id(1), innocent).check();
    case Deed::no_receive:
    case Deed::nobody:
      return victim.qp().post(rdma::Send{fits}.id(1), innocent).check();
    case Deed::gave_up:
      victim.qp().post(rdma::Recv{victim.in()}.id(1)).check();
      victim.qp().to_error();
      return victim.qp().post(innocent).check();  // taken, and flushed at once
  }
}

}  // namespace errors
