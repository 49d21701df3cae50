"""Planted bugs: one-line mistakes in the protocol that the tests must notice.

Each row is (name, file, the right text, the wrong text); the comment names what is expected to
notice it. The right text occurs exactly once in the file; white space and line breaks in it
match any. The bugs of one file stand together, so that the next build recompiles little.
"""

ACK_DELAY = "src/engine/ack_delay.h"
COMPLETER = "src/engine/completer.cc"
COMPLETION_QUEUE = "src/engine/completion_queue.cc"
CREDITS = "src/engine/credits.h"
MEMORY_REGION_HEADER = "src/engine/memory_region.h"
MESSAGE_RULES = "src/engine/message_rules.cc"
PACES = "src/engine/paces.cc"
PAYLOAD_PLACEMENT = "src/engine/payload_placement.cc"
QUEUE_PAIR = "src/engine/queue_pair.cc"
QUEUE_PAIR_HEADER = "src/engine/queue_pair.h"
RECEIVE_QUEUE = "src/engine/receive_queue.cc"
RECEIVE_SIDE = "src/engine/receive_side.cc"
REMOTE_ACCESS = "src/engine/remote_access.cc"
REQUESTER = "src/engine/requester.cc"
RESPONDER = "src/engine/responder.cc"
RESPONDER_CHECKS = "src/engine/responder_checks.cc"
RESPONDER_DUPLICATES = "src/engine/responder_duplicates.cc"
RESPONDER_EXECUTION = "src/engine/responder_execution.cc"
RESPONDER_TRANSMIT = "src/engine/responder_transmit.cc"
RNIC = "src/engine/rnic.cc"
RNIC_MEMORY = "src/engine/rnic_memory.cc"
RNIC_MODIFY = "src/engine/rnic_modify.cc"
RNIC_QUEUES = "src/engine/rnic_queues.cc"
RNIC_RECEIVE = "src/engine/rnic_receive.cc"
RUN_QUEUE = "src/engine/run_queue.cc"
SCATTER_GATHER = "src/engine/scatter_gather.cc"
SEND_QUEUE = "src/engine/send_queue.cc"
TIMER_QUEUE = "src/engine/timer_queue.cc"
UNRELIABLE = "src/engine/unreliable.cc"
WINDOWS = "src/engine/window_binding.cc"
ICRC = "src/packet/icrc.cc"
PACKET = "src/packet/packet.cc"
PSN = "src/base/psn.h"
CM_ACTIVE = "src/cm/active.cc"
CM_PASSIVE = "src/cm/passive.cc"
CM_DESTROY = "src/cm/destroy.cc"
CM_DISCONNECT = "src/cm/disconnect.cc"
CM_MRA = "src/cm/mra.cc"
CM_REJ = "src/cm/rej.cc"
CM_TIMEWAIT = "src/cm/timewait.cc"
CM_UNDELIVERED = "src/cm/undelivered.cc"
CM_CORE = "src/cm/core.cc"
CM_SIDR = "src/cm/sidr.cc"
CM_MANAGER = "src/cm/connection_manager.cc"
CM_UNDELIVERED_BACKOFF = "src/cm/undelivered_backoff.h"
CM_LISTENER_RETRY = "src/cm/listener_retry.h"
CM_RETRY_SCHEDULE = "src/cm/retry_schedule.h"
CM_ROUTE = "src/cm/route.h"
PROGRESS = "src/host/progress/progress_policy.cc"
PROGRESS_HEADER = "src/host/progress/progress_policy.h"
SPARE_CORE = "src/host/progress/spare_core.h"
FAULT_HANDLER = "src/memory/fault_handler.cc"
GUARDED_COPY = "src/memory/guarded_copy.cc"
HOST_MEMORY = "src/memory/host_memory.cc"
NULL_MEMORY = "src/memory/null_memory.h"
SHM_LINK = "src/wire/shm/link.cc"
SHM_RING = "src/wire/shm/ring.cc"
SHM_SEGMENT = "src/wire/shm/segment.cc"
SHM_WIRE = "src/wire/shm/shm_wire.cc"
SHM_WIRE_LINKS = "src/wire/shm/shm_wire_links.cc"
CONNECTION_MEMORY = "src/registry/connection_memory.cc"
PEERS = "src/registry/peers.cc"
SHARED_TABLE = "src/registry/shared_table.cc"

MUTANTS = [
    # ---- delayed acknowledgements

    # AckDelaySim.ABadAnswerTakesNoAcknowledgementAlong
    ("waiting-ack-lost-in-error", QUEUE_PAIR,
     "acknowledge_now(qp.responder);",
     ""),

    # AckDelayTest.AStreamOfMessagesEndsIt
    ("stream-taken-for-answers", ACK_DELAY,
     "if (heard_at_ != kNever) answers_ = 0;",
     ""),
    # AckDelayTest.ALateAnswerEndsIt
    ("late-answer-counts", ACK_DELAY,
     "answers_ = now - heard_at_ > kLongest ? 0 : answers_ + 1;",
     "++answers_;"),
    # AckDelaySim.AProgramThatEndsDoesNotWait
    ("last-acks-wait", RNIC,
     "acknowledge_now(qp.responder);",
     ""),

    # ---- paths that are full

    # FullPath.HoldsUpItsOwnQueuePairsOnly
    ("full-path-stops-everybody", RNIC,
     "if (by_sink && sink.full()) return false;",
     "if (by_sink) return false;"),
    # FullPath.IsNotLookedForWhenTheSinkIsFull
    ("full-sink-is-asked-on", RNIC,
     "if (by_sink && sink.full()) return false;",
     ""),
    # FullPath.OfManyCostsNobodyElseATurn
    ("full-path-costs-a-turn", RNIC,
     "retry_stalled_at_ = now + kStallPause;",
     "retry_stalled_at_ = now + kStallPause; ++turn;"),
    # FullPath.IsTriedAgainWhileOthersSend
    ("full-path-is-tried-at-once", RNIC,
     "if (stalled_.empty() || (!runnable_.empty() && now < retry_stalled_at_)) return;",
     "if (stalled_.empty()) return;"),
    # FullPath.IsTriedAgainWhileOthersSend
    ("full-path-waits-for-all-others", RNIC,
     "if (stalled_.empty() || (!runnable_.empty() && now < retry_stalled_at_)) return;",
     "if (stalled_.empty() || !runnable_.empty()) return;"),
    # FullPath.IsForgottenWithItsQueuePair
    ("stalled-pair-outlives-itself", RNIC_QUEUES,
     "if (!runnable_.remove(qp)) stalled_.remove(qp);",
     "runnable_.remove(qp);"),

    # ---- responder: sequence numbers, duplicates

    # RcProperty
    ("duplicate-executed", RESPONDER,
     "if (ahead < 0) {",
     "if (ahead < -1) {"),
    # RcProperty: over the wrap
    ("responder-psn-does-not-wrap", RESPONDER_EXECUTION,
     "r.expected = r.expected + psns;",
     "r.expected = Psn{std::min(r.expected.value() + psns, Psn::kMask)};"),
    # RcAnswers.OneNakForOneGap
    ("nak-repeated", RESPONDER,
     "if (!r.nak_sent) {",
     "if (true) {"),
    # RcAnswers.EachGapHasItsNak
    ("only-the-first-gap-is-nakked", RESPONDER,
     "r.nak_sent = false;",
     ""),
    # RcAnswers.OneNakForOneGap
    ("gap-acknowledged", RESPONDER,
     "r.answer = Syndrome::nak(NakCode::psn_sequence_error);",
     "r.answer = Syndrome::ack();"),
    # RcProperty: a lost ACK is never repeated
    ("duplicate-not-acknowledged", RESPONDER_DUPLICATES,
     "if (!r.answer) r.answer = Syndrome::ack();",
     ""),
    # Abi: exit_at_once, AckDelaySim
    ("waiting-ack-forgotten", RESPONDER_TRANSMIT,
     "r.waiting_until = may ? r.answer_by : kNever;",
     "if (may) r.answer.reset();"),
    # AckDelaySim.WithoutAnAnswerItWaitsNoLongerThanItMay
    ("waiting-ack-without-a-timer", RESPONDER_TRANSMIT,
     "r.waiting_until = may ? r.answer_by : kNever;",
     "r.waiting_until = kNever;"),
    # AckDelaySim.TwoThatAwaitAcknowledgementsDoNotWaitForEachOther
    ("two-wait-for-each-other", RESPONDER_TRANSMIT,
     "services.now < r.answer_by && drained(qp)",
     "services.now < r.answer_by"),
    # AckDelaySim.AWaitingAcknowledgementIsNotOfAMessageWhoseCompletionIsLost
    ("waiting-ack-of-a-lost-completion", RESPONDER_EXECUTION,
     "r.expected = p.bth.psn;",
     ""),
    # AckDelaySim.AProgramThatIsWokenIsNotWaitedFor
    ("ack-waits-for-a-sleeper", RESPONDER_EXECUTION,
     "ack_delay.woken();",
     "return ack_delay.heard(services.now);"),
    # RcProperty
    ("ack-of-what-has-not-come", RESPONDER_TRANSMIT,
     "ack ? r.expected.previous() : r.expected)",
     "r.expected)"),
    # Scenario.BadRkeyIsRefusedAndFlushesTheRestInOrder
    ("nak-with-the-wrong-psn", RESPONDER_TRANSMIT,
     "ack ? r.expected.previous() : r.expected)",
     "r.expected.previous())"),
    # RcAnswers.CarryTheNumberOfMessagesDone
    ("ack-with-the-wrong-msn", RESPONDER_TRANSMIT,
     "qp.responder.msn};",
     "qp.responder.msn + 1};"),
    # RcAnswers.CarryTheNumberOfMessagesDone
    ("read-response-without-its-msn", RESPONDER_EXECUTION,
     "response.msn = r.msn;",
     ""),

    # ---- responder: atomics and READ again

    # RcAnswers.DuplicateAtomicGetsTheSavedAnswer, RcProperty
    ("duplicate-atomic-executed-again", RESPONDER_DUPLICATES,
     "response.original = saved->original;",
     "response.original = *services.keys.find(p.atomic_eth.rkey)->backing->fetch_add("
     "services.keys.find(p.atomic_eth.rkey)->translate(p.atomic_eth.address),"
     " p.atomic_eth.swap_or_add);"),
    # RcAnswers.DuplicateAtomicGetsTheSavedAnswer
    ("saved-atomic-not-replayed", RESPONDER_DUPLICATES,
     "if (saved == nullptr) return;",
     "return;"),
    # RcAnswers.EveryAtomicThatMayBeOutstandingIsSaved
    ("one-atomic-too-few-saved", RESPONDER_EXECUTION,
     "if (r.atomics.size() > qp.attributes.max_dest_rd_atomic)",
     "if (r.atomics.size() >= qp.attributes.max_dest_rd_atomic)"),
    # RcAnswers.DuplicateReadOfMemoryThatIsGoneIsRefusedButEndsNothing
    ("duplicate-read-of-lost-memory-is-an-error", RESPONDER_TRANSMIT,
     "if (response.replay) {",
     "if (false) {"),
    # RcAnswers.DuplicateReadNeverReachesBeyondWhatWasAsked
    ("read-again-beyond-what-was-asked", RESPONDER_DUPLICATES,
     "distance(end, r.expected) > 0 ||",
     ""),
    # RcProperty
    ("read-again-from-the-start", RESPONDER_TRANSMIT,
     "response.source.address + response.sent;",
     "response.source.address;"),

    # ---- responder: checks before a byte moves

    # RcAnswers.MiddleWithoutFirstIsRefused
    ("message-order-not-checked", RESPONDER_CHECKS,
     "return fits ? Refusal{} : kInvalidRequest; } Refusal check_permitted",
     "return {}; } Refusal check_permitted"),
    # RcAnswers.QueuePairThatPermitsNothingIsNotWritten
    ("queue-pair-access-not-checked", RESPONDER_CHECKS,
     "(qp.attributes.access & needed) == needed ?",
     "true ?"),
    # RcAnswers.OneReadMoreThanAgreedIsRefused
    ("responder-depth-not-checked", RESPONDER_CHECKS,
     "return fresh < qp.attributes.max_dest_rd_atomic ? Refusal{} : kInvalidRequest;",
     "static_cast<void>(fresh); return {};"),
    # RcAnswers.QueuePairThatGoesRepeatsItsLastAcknowledgement
    ("goes-without-repeating-its-ack", RNIC_QUEUES,
     "transmit_last_ack_again(services_, qp, sink);",
     ";"),
    # RcAnswers.QueuePairThatExecutedNothingGoesInSilence
    ("ack-repeated-for-nothing", RESPONDER_TRANSMIT,
     "if (!executed || !r.responses.empty()) return;",
     "if (!r.responses.empty()) return;"),
    # RcAnswers.WriteLongerThanItSaidIsRefused
    ("write-longer-than-reth-accepted", MESSAGE_RULES,
     "return info.last ? size == left : size < left;",
     "return true || left > 0;"),
    # RcAnswers.ShortMiddlePacketIsRefused
    ("short-middle-packet-accepted", MESSAGE_RULES,
     "(!info.last && size != mtu)",
     "false"),
    # Scenario.EmptyWriteNeedsNoKey
    ("empty-write-needs-a-key", RESPONDER_CHECKS,
     "if (reth.length == 0) return {};",
     ""),
    # RcAnswers.AtomicOnAWordThatOnlyThePeerCallsAlignedIsRefused
    ("unaligned-atomic-accepted", RESPONDER_CHECKS,
     "return region->translate(address) % 8 == 0 ? Refusal{} : kInvalidRequest;",
     "return {};"),
    # RcAnswers.RegionThatGoesAwayInTheMiddleOfAMessageIsNotWritten: the process dies
    ("write-checked-at-its-first-packet-only", RESPONDER_CHECKS,
     "return check_range(services, qp, p.info().first ? p.reth : qp.responder.target, access);",
     "return p.info().first ? check_range(services, qp, p.reth, access) : Refusal{};"),
    # Scenario.MemoryThatVanishedUnderAWriteIsARemoteAccessError
    ("acknowledged-before-it-was-placed", RESPONDER_EXECUTION,
     "} else if (!place_write(services, qp, p.payload)) {",
     "} else if (!place_write(services, qp, p.payload) && false) {"),
    # Trains.MemoryThatVanishedUnderASendFailsBothSides
    ("late-fault-names-a-packet-that-never-came", RESPONDER_EXECUTION,
     "qp.responder.expected = qp.responder.expected.previous();",
     ""),
    # Trains.MemoryThatVanishedUnderAWriteIsARemoteAccessError
    ("copies-that-waited-fail-silently", RNIC_RECEIVE,
     "copies.response() ? fail_unplaced_response(services_, qp) : refuse_unplaced(services_, qp);",
     ""),
    # Trains.MemoryThatVanishedUnderTheLastPacketOfASendFailsBothSides
    ("the-last-packet-waits", RNIC_RECEIVE,
     "if (places && datagram.more && !info.last) {",
     "if (places && datagram.more) {"),
    # Trains, and the properties: memory that differs
    ("copies-wait-for-another-message", RNIC_RECEIVE,
     "if (!continues) finish_copies();",
     ""),
    # SmallQueueAnswers.SendWhoseCompletionIsLostIsNotAcknowledged
    ("acknowledged-though-nobody-heard-of-it", RESPONDER_EXECUTION,
     "if (qp.state.load(std::memory_order_relaxed) == QpState::error) { r.expected",
     "if (false) { r.expected"),
    # Congestion.MarkedPacketsAreToldToTheirSenderWhoSlowsDown
    ("congestion-told-too-often", RESPONDER,
     "if (now < r.next_notice) return;",
     ""),
    # Xrc.UnknownReceiveQueueIsRefused
    ("xrc-unknown-srq-accepted", RESPONDER_CHECKS,
     "it->second->xrc_cq == nullptr || it->second->xrcd != qp.xrcd) { return kInvalidRequest; }",
     "it->second->xrc_cq == nullptr || it->second->xrcd != qp.xrcd) { return {}; }"),
    # Xrc.ReceiveQueueOfAnotherDomainIsRefused
    ("xrc-srq-of-another-domain-accepted", RESPONDER_CHECKS,
     "|| it->second->xrcd != qp.xrcd",
     ""),

    # XrcAnswers.MessageCompletesInTheQueueThatItBeganWith
    ("xrc-message-changes-its-queue", RESPONDER_CHECKS,
     "if (inside_message && qp.responder.xrc_srq != nullptr) return {};",
     ""),

    # ---- placement: keys, receives

    # RemoteKey.OfAnotherDomainIsRefused
    ("remote-domain-not-checked", REMOTE_ACCESS,
     "region->pd == pd &&",
     ""),
    # Xrc.MemoryOfAnotherProtectionDomainIsRefused
    ("xrc-domain-not-that-of-the-receive-queue", REMOTE_ACCESS,
     "return qp.type == QpType::xrc_receive ? qp.responder.xrc_srq->pd : qp.pd;",
     "return qp.pd;"),
    # Registration.ZeroBasedAndReregistered
    ("remote-access-not-checked", REMOTE_ACCESS,
     "(region->access & access) == access &&",
     ""),
    # Scenario.WriteBeyondTheRegionMovesNoByte
    ("remote-bounds-not-checked", REMOTE_ACCESS,
     "&& region->contains(address, bytes);",
     ";"),
    # RemoteKey.OfAWindowThatAnotherQueuePairBoundIsRefused
    ("window-of-another-queue-pair-accepted", REMOTE_ACCESS,
     "region->owner == qp.qpn",
     "true"),
    # WindowTest.SendWithInvalidateClosesIt
    ("window-that-is-not-bound-accepted", REMOTE_ACCESS,
     "region->bound &&",
     ""),
    # Srq.LimitIsToldOnce
    ("srq-limit-event-repeated", RECEIVE_SIDE,
     "srq->limit = 0;",
     ""),
    # SharedReceivesProperty
    ("srq-limit-told-too-late", RECEIVE_SIDE,
     "queue.size() < srq->limit",
     "queue.size() + 1 < srq->limit"),
    # Scenario.ReceiveThatIsTooSmallFailsBothSides
    ("send-longer-than-the-receive-accepted", PAYLOAD_PLACEMENT,
     "size > receive.length - offset",
     "false"),
    # Scenario.ReceiveIntoReadOnlyMemoryFailsBothSides
    ("receive-into-read-only-memory", PAYLOAD_PLACEMENT,
     "offset, size, Access::kLocalWrite, services.segments)",
     "offset, size, 0, services.segments)"),
    # RcProperty
    ("write-packets-on-top-of-each-other", PAYLOAD_PLACEMENT,
     "r.target.address + r.received",
     "r.target.address"),
    # RcProperty
    ("immediate-dropped", RECEIVE_SIDE,
     ".has_immediate = p.info().immediate,",
     ".has_immediate = false,"),
    # RcCompletions.SolicitedIsOfTheLastPacket
    ("solicited-dropped-at-the-receiver", RECEIVE_SIDE,
     ".solicited = p.bth.solicited,",
     ".solicited = false,"),

    # ---- requester

    # RcRequests.FencedRequestWaitsForTheReadBeforeIt
    ("fence-ignored", REQUESTER,
     "if (wqe.request.fence && !r.answered.empty()) return false;",
     ""),
    # Drain.FinishesWhatWasBegunAndTells
    ("draining-queue-begins-new-requests", REQUESTER,
     "if (qp.state.load(std::memory_order_relaxed) == QpState::sqd) return false;",
     ""),
    # RcProperty
    ("first-packet-of-a-write-taken-for-a-plain-one", REQUESTER,
     "if (qp.requester.packet == 0 && headers({.first = true}) != middle) return 1;",
     ""),
    # RcRequests.FirstFlightFitsTheDefaultReceiveBuffer
    ("window-never-closes", REQUESTER,
     "if (!window_open(services, qp, wqe, now)) return Sent::all;",
     ""),
    # Paced.*
    ("held-back-for-ever", PACES,
     "->pace.reached({from, number}, buffer)) return false; release(*place, runnable);",
     "->pace.reached({from, number}, buffer)) return false;"),
    ("held-back-when-the-mark-is-given-up", PACES,
     "place.pace.expire(now); release(place, runnable);",
     "place.pace.expire(now);"),
    # RcRequests.NoMoreReadsAreOutstandingThanAgreed
    ("max-rd-atomic-ignored", REQUESTER,
     "if (r.answered.size() >= a.max_rd_atomic) return RequestStep::wait;",
     ""),
    # RcRequests.LastPacketAsksForTheAcknowledgement
    ("last-packet-asks-for-no-ack", REQUESTER,
     "p.bth.ack_request = part.last ||",
     "p.bth.ack_request ="),
    # RcCompletions.SolicitedIsOfTheLastPacket
    ("solicited-not-sent", REQUESTER,
     "p.bth.solicited = wqe.request.solicited && part.last;",
     ""),
    # Bind.IsNotDoneTwiceWhenARequestBeforeItIsSentAgain
    ("window-bound-twice", REQUESTER,
     "wqe.done = true;",
     ""),
    # Scenario.RequestsBeforeALocalFaultStillComplete
    ("fault-overtakes-what-is-in-flight", REQUESTER,
     "if (qp.sq.head() == r.wqe) fail_send",
     "fail_send"),
    # RcRequests.ReadNeedsAWritableBuffer
    ("read-into-read-only-memory", REQUESTER,
     "offset, length, Access::kLocalWrite, services.segments)",
     "offset, length, 0, services.segments)"),
    # RcProperty: a READ is asked for again from its beginning
    ("cursor-goes-back-to-the-wrong-packet", REQUESTER,
     "distance(psn, qp.sq.at(r.wqe).first_psn)) : 0;",
     "0) : 0;"),
    # FewRnrRetries.AreCountedAndTimed
    ("rnr-wait-not-kept", REQUESTER,
     "|| is_waiting(r, now)) return Sent::all;",
     ") return Sent::all;"),

    # DrainProperty
    ("unsent-request-counts-as-begun", REQUESTER,
     "if (begins && step != RequestStep::sent) wqe.started = false;",
     ""),
    # RcCredits.MessageThatAsksSendsOnePacketAndGoesOnWhenThatIsTaken
    ("message-without-credit-sends-all", REQUESTER,
     "return distance(c.unacked, wqe.first_psn) <= 0;",
     "return false;"),
    # RcCredits.MessageThatAsksSendsOnePacketAndGoesOnWhenThatIsTaken
    ("packet-that-asks-wants-no-answer", REQUESTER,
     "part.last || probe ||",
     "part.last ||"),
    # RcCredits.WritesAndReadsNeedNone
    ("write-needs-a-credit", REQUESTER,
     "if (!wqe.info().takes_receive() || c.credits.covers(wqe.receive)) return false;",
     "if (c.credits.covers(wqe.receive)) return false;"),

    # ---- completer

    # FewRnrRetries.AreCountedAndTimed
    ("rnr-timer-ignored", COMPLETER,
     "wait_until(qp.requester, now + packet::rnr_delay(timer));",
     ""),
    # FewRnrRetries.AreCountedAndTimed
    ("rnr-retries-not-counted", COMPLETER,
     "--c.rnr_retries_left;",
     ""),
    # Scenario.SendWaitsForAReceiveThatComesLate
    ("rnr-retry-7-is-not-for-ever", COMPLETER,
     "if (qp.attributes.rnr_retry != 7) {",
     "{"),
    # Scenario.DeadPeerEndsInRetryExceededBetweenOneAndFourTimesTheTimeout
    ("retries-not-counted", COMPLETER,
     "--c.retries_left;",
     ""),
    # RcTimers.RetriesBeginAnewWhenThePeerAnswers
    ("retries-not-renewed", COMPLETER,
     "c.retries_left = qp.attributes.retry_count; c.rnr_retries_left",
     "c.rnr_retries_left"),
    # RcTimers.IdleQueuePairNeverTimesOut
    ("timer-not-stopped-at-completion", COMPLETER,
     "anything_outstanding(qp) ? start_timers(qp, now) : stop_timers(c);",
     "start_timers(qp, now);"),
    # Scenario.DeadPeerEndsInRetryExceededBetweenOneAndFourTimesTheTimeout
    ("timer-not-started", COMPLETER,
     "if (first || (c.timeout_at == kNever && c.early_at == kNever)) start_timers(qp, now);",
     ""),
    # RcProperty: the last packet of a READ is missing
    ("complete-before-the-last-read-packet", COMPLETER,
     "distance(qp.completer.unacked, wqe.end_psn()) >= 0;",
     "distance(qp.completer.unacked, wqe.end_psn()) >= -1;"),
    # RcProperty
    ("ack-completes-a-read", COMPLETER,
     "if (wqe.info().answered) {",
     "if (false) {"),
    # RcCompletions.AckOfWhatWasNeverSentIsDropped
    ("ack-of-what-was-never-sent-accepted", COMPLETER,
     "|| distance(p.bth.psn, qp.requester.end) >= 0) {",
     ") {"),
    # RcCompletions.AckOfWhatWasNeverSentIsDropped
    ("old-ack-accepted", COMPLETER,
     "distance(p.bth.psn, c.unacked) < 0 ||",
     ""),
    # RcTimers.HoleInReadResponsesCostsOneRetry
    ("hole-asked-for-again-and-again", COMPLETER,
     "if (c.gap == c.unacked) return;",
     ""),
    # ReadsAskedAgain.AsTheKernelTakesThem
    ("rest-of-a-read-asked-for-too-early", "src/engine/packets_again.cc",
     "if (!begins) return 0;",
     ""),
    # EarlyRetry.AnswersBehindAHoleUseUpOneRetry
    ("hole-asked-for-again-after-an-early-try", COMPLETER,
     "go_back(services, qp, RetryCause::early, now);\n    c.gap = c.unacked;",
     "go_back(services, qp, RetryCause::early, now);\n    c.gap.reset();"),
    # RcRequests.LossMakesTheWindowSmaller
    ("window-ignores-loss", COMPLETER,
     "qp.completer.window.lost(qp.requester.end);",
     ""),
    # RcProperty: what was lost stays in flight for ever
    ("window-leaks-what-is-sent-again", COMPLETER,
     "qp.completer.window.went_back();",
     ""),
    # RcCompletions.ReadResponseOfTheWrongLengthIsABadResponse
    ("read-response-length-not-checked", COMPLETER,
     "if (p.payload.size() != expected) {",
     "if (p.payload.size() > expected) {"),
    # RcProperty
    ("read-packets-on-top-of-each-other", COMPLETER,
     "place_response(services, qp, p.payload, offset);",
     "place_response(services, qp, p.payload, 0);"),
    # Scenario.BadRkeyIsRefusedAndFlushesTheRestInOrder
    ("access-nak-told-as-another", COMPLETER,
     "fail(services, qp, CompletionStatus::remote_access_error);",
     "fail(services, qp, CompletionStatus::remote_operation_error);"),

    # OverrunProperty
    ("timer-on-a-queue-pair-that-has-failed", COMPLETER,
     "if (qp.state.load(std::memory_order_relaxed) == QpState::error) return; "
     "Completer& c = qp.completer;",
     "Completer& c = qp.completer;"),
    # OverrunProperty
    ("nak-to-a-queue-pair-that-has-failed", COMPLETER,
     "|| qp.state.load(std::memory_order_relaxed) == QpState::error) {",
     ") {"),
    # RcCompletions.AnswerWithAnOpcodeThatDoesNotFitIsABadResponse
    ("answer-of-any-kind-accepted", COMPLETER,
     "if (!opcode_fits(wqe, p)) {",
     "if (false) {"),
    # RcCompletions.AnswerWithAnOpcodeThatDoesNotFitIsABadResponse
    ("read-begins-in-its-middle", COMPLETER,
     "(info.first || !at_begin) &&",
     ""),
    # RcCompletions.AnswerWithAnOpcodeThatDoesNotFitIsABadResponse
    ("read-goes-on-behind-its-end", COMPLETER,
     "&& (info.last || !at_end);",
     ";"),
    # RcCredits.NewReceivesAreToldByTheSameAcknowledgementAgain
    ("unsolicited-credits-ignored", COMPLETER,
     "if (ack && p.bth.psn.next() == c.unacked) c.credits.granted(p.aeth.syndrome);",
     ""),
    # RcCredits.ReadResponseTellsOfReceives
    ("credits-of-a-response-ignored", COMPLETER,
     "if (p.info().aeth) c.credits.granted(p.aeth.syndrome);",
     ""),

    # ---- queues

    # RcProperty
    ("signalling-ignored", QUEUE_PAIR,
     "wqe.request.signaled || !ok;",
     "true;"),
    # Scenario.BadRkeyIsRefusedAndFlushesTheRestInOrder
    ("error-of-an-unsignalled-request-untold", QUEUE_PAIR,
     "wqe.request.signaled || !ok;",
     "wqe.request.signaled && ok;"),
    # Scenario.BadRkeyIsRefusedAndFlushesTheRestInOrder
    ("flushed-before-the-one-that-failed", QUEUE_PAIR,
     "if (qp.sq.head() != qp.sq.tail()) complete_send(services, qp, status);",
     "flush_sends(services, qp);"),
    # RcCompletions.HalfFilledReceiveIsFlushedFirst
    ("half-filled-receive-not-flushed", RECEIVE_SIDE,
     "fail_receive(services, qp, CompletionStatus::flushed); while",
     "while"),
    # LocalKey.OfAnotherDomainIsRefused
    ("local-domain-not-checked", SCATTER_GATHER,
     "region->pd == pd &&",
     ""),
    # SendQueue.SignalAllSignalsEveryRequest
    ("signal-all-ignored", SEND_QUEUE,
     "wqe.request.signaled = r.signaled || signal_all;",
     "wqe.request.signaled = r.signaled;"),
    # SendQueue.RefusesWhatDoesNotFit
    ("full-send-queue-overwritten", SEND_QUEUE,
     ">= depth_) return PostResult::queue_full;",
     "> depth_) return PostResult::queue_full;"),
    # SendQueue.StagedRequestsAreSeenWhenTheyArePublished
    ("one-of-a-list-published", SEND_QUEUE,
     "advance(staged);",
     "advance(1);"),
    # CompletionQueue.ModeratedEventsWaitForTheirCountOrTheirTime
    ("moderation-ignored", COMPLETION_QUEUE,
     "if (++gathered_ < moderation_count_) {",
     "if (false) {"),
    # RcProperty
    ("receive-not-popped", RECEIVE_QUEUE,
     "first + wqes_[at].sge_count); head_.store(head + 1, std::memory_order_release);",
     "first + wqes_[at].sge_count);"),
    # RcProperty
    ("receive-popped-twice", RECEIVE_QUEUE,
     "first + wqes_[at].sge_count); head_.store(head + 1, std::memory_order_release);",
     "first + wqes_[at].sge_count); head_.store(head + 2, std::memory_order_release);"),
    # CompletionQueue.SolicitedRequestWaitsForASolicitedCompletionOrAnError
    ("solicited-event-for-any-completion", COMPLETION_QUEUE,
     "const bool special = c.solicited || c.status != CompletionStatus::success;",
     "const bool special = true;"),

    # CompletionQueue.*
    ("completion-queue-shrinks-below-what-waits", COMPLETION_QUEUE,
     "if (waiting > capacity) return false;",
     ""),

    # ---- rnic

    # Scenario.FramesFromAnotherAddressAreDropped
    ("source-address-not-checked", RNIC_RECEIVE,
     "datagram.source != qp.attributes.flow.destination ||",
     ""),
    # RcAnswers.FrameOfAnotherPartitionIsDropped
    ("partition-not-checked", RNIC_RECEIVE,
     "if ((p.bth.pkey & 0x7fff) != (packet::kDefaultPkey & 0x7fff)) return &Counters::drop_pkey;",
     ""),
    # RcAnswers.FrameOfAnotherServiceIsDropped
    ("service-not-checked", RNIC_RECEIVE,
     "if (!of_any && info.service != qp.service()) return &Counters::drop_service;",
     ""),
    # RcProperty, most others: the second post is never seen
    ("doorbell-lost", RNIC,
     "qp->doorbell.rung.exchange(false, std::memory_order_acq_rel);",
     ""),
    # RcRequests.CongestionNoticeMakesTheWindowSmaller
    ("congestion-notification-ignored", RNIC_RECEIVE,
     "slow_down(qp);",
     ""),
    # XrcAnswers.ReceiveQueueThatGoesAwayUnderAMessageTakesTheQueuePairAlong
    ("xrc-receive-outlives-its-queue", RNIC_QUEUES,
     "if (forget_srq(qp.responder, srq)) enter_error(services_, qp, EventKind::qp_fatal);",
     "static_cast<void>(forget_srq(qp.responder, srq));"),
    # Scenario.ErrorStateFlushesReceivesThatArePostedLater
    ("receive-posted-in-error-not-flushed", RNIC,
     "if (result == PostResult::posted && qp.state.load() == QpState::error) doorbells_.ring(qp);",
     ""),
    # WindowTest.GrantsWhatItIsBoundToAndNoMore
    ("region-under-a-window-goes-away", RNIC_MEMORY,
     "if (region->windows != 0) {",
     "if (false) {"),

    # Drain.OfUcIsToldWhenTheLastPacketHasLeft
    ("uc-drained-untold", RNIC,
     "finish_draining(qp);  // UC and UD",
     "// UC and UD"),
    # MisfortunesProperty.ReconnectedQueuePairsStartAfresh
    ("reset-keeps-half-of-the-responder", RNIC_MODIFY,
     "qp.responder = std::move(responder);",
     "qp.responder.expected = responder.expected;"),
    # NoMemory: the domain stays in use
    ("counted-before-it-is-there", RNIC_QUEUES,
     "const QueuePair& qp = qps_.insert(std::move(made)); ++users_of_domain(qp);",
     "++users_of_domain(*made); const QueuePair& qp = qps_.insert(std::move(made));"),
    # Multicast.GroupGoesWithItsLastQueuePair
    ("multicast-group-stays-without-members", RNIC_QUEUES,
     "std::erase_if(multicast_, [](const auto& group) { return group.second.empty(); });",
     ""),
    # SharedReceivesProperty, MisfortunesProperty
    ("queue-pair-falls-out-of-the-run-queue", RUN_QUEUE,
     "last_ = &qp;",
     ""),

    # ---- unreliable services

    # Uc.LostPacketLosesItsMessageOnlyAndTheReceiveServesTheNext
    ("uc-gap-not-detected", UNRELIABLE,
     "p.bth.psn == r.expected &&",
     ""),
    # Ud.WrongQkeyTooLongAndNoReceiveAreDroppedAndCounted
    ("qkey-not-checked", UNRELIABLE,
     "if (p.deth.qkey != qp.attributes.qkey) {",
     "if (false) {"),
    # Ud.WrongQkeyTooLongAndNoReceiveAreDroppedAndCounted
    ("ud-longer-than-the-receive-accepted", PAYLOAD_PLACEMENT,
     "if (size > r.receive.length) {",
     "if (false) {"),
    # UcRules.WriteNeedsTheQueuePairsPermission
    ("uc-queue-pair-access-not-checked", UNRELIABLE,
     "check_permitted(qp, p) || ",
     ""),

    # UnreliableProperty
    ("uc-message-goes-on-after-it-was-given-up", UNRELIABLE,
     "&& r.message == info.kind;",
     ";"),
    # UnreliableProperty
    ("ud-header-missing", PAYLOAD_PLACEMENT,
     "if (place_send(services, qp, piece, r.received) != Placed::yes) {",
     "if (r.received > 0 && place_send(services, qp, piece, r.received) != Placed::yes) {"),

    # ---- memory windows

    # WindowTest.MustBeInvalidatedBeforeItIsBoundAgain
    ("window-rebound-without-invalidation", WINDOWS,
     "if (type_2 && window->bound) return kRefused;",
     ""),
    # WindowTest.SendWithInvalidateClosesIt
    ("invalidated-window-still-valid", WINDOWS,
     "window.bound = false;",
     ""),
    # WindowTest.BeyondTheRegionIsRefused
    ("window-beyond-its-region", WINDOWS,
     "|| !parent->contains(b.address, b.length)) return kRefused;",
     ") return kRefused;"),
    # WindowTest.KeyOfAnotherWindowIsRefused
    ("window-takes-a-foreign-key", WINDOWS,
     "if (!same_window(b.window, b.new_key)) return kRefused;",
     ""),
    # RemoteKey.WindowCannotWriteWhatItsRegionCannot
    ("window-grants-more-than-its-region", WINDOWS,
     "if (writes && (parent->access & Access::kLocalWrite) == 0) return kRefused;",
     ""),
    # WindowTest.GoesWithTheQueuePairThatBoundIt
    ("window-outlives-its-queue-pair", WINDOWS,
     "qp.has_bound = qp.has_bound || type_2;",
     ""),

    # ---- timers

    # TimerQueueTest.GivesTheEarliestWhateverHappened
    ("timer-only-sinks-into-a-hole", TIMER_QUEUE,
     "if (place > 0 && last.when < heap_[(place - 1) / 2].when) {",
     "if (false) {"),
    # TimerQueueTest.GivesTheEarliestWhateverHappened
    ("timer-sinks-to-the-later-child", TIMER_QUEUE,
     "heap_[child + 1].when < heap_[child].when",
     "heap_[child].when < heap_[child + 1].when"),

    # ---- no memory

    # NoMemoryTraffic.IsLateAtWorst
    ("response-without-room", RESPONDER,
     "if (is_answered(p.info().kind)) r.responses.make_room();",
     ""),
    # NoMemoryTraffic.IsLateAtWorst
    ("atomic-without-room", RESPONDER,
     "if (is_atomic(p.info().kind)) r.atomics.make_room();",
     ""),
    # NoMemoryTraffic.IsLateAtWorst
    ("receive-without-room", RESPONDER,
     "r.receive.sges.reserve(max_receive_sge(services, qp, p));",
     "r.receive.sges.reserve(0 * max_receive_sge(services, qp, p));"),
    # NoMemoryTraffic.IsLateAtWorst
    ("read-without-room", REQUESTER,
     "r.answered.make_room();",
     ""),
    # NoMemoryTraffic.IsLateAtWorst
    ("range-of-a-read-without-room", REQUESTER,
     "r.asked.reserve(2 * r.asked.size() + 1);",
     "r.asked.reserve(0);"),

    # ---- packets

    # RecoverIdentification.*
    ("icrc-any-difference-accepted", ICRC,
     "if ((solution & 0xffffu) != 0) return std::nullopt;",
     ""),
    # RecoverIdentification.*
    ("icrc-not-checked-on-ipv6", ICRC,
     "if (!hidden) return std::nullopt;",
     "if (!headers.source.is_v4()) return std::uint16_t{0};"),
    # Parse.*
    ("pad-longer-than-the-payload-accepted", PACKET,
     "if (padded < bth.pad ||",
     "if ("),

    # ---- connection manager

    # CmProperty, Mra.ARetriedRepGetsMraThenRtu
    ("cm-lost-rtu-is-not-repeated", CM_ACTIVE,
     "core.resend({c.route, c.rtu});",
     ""),
    # Connect.TellsBothEndsAllTheNumbers
    ("cm-depths-not-swapped", CM_ACTIVE,
     "c.peer.responder_resources = m.initiator_depth;",
     "c.peer.responder_resources = m.responder_resources;"),
    # StaleConnection.AStaleRepIsRejected
    ("cm-stale-reply-accepted", CM_ACTIVE,
     "if (Connection* const old = core.table.find_remote_qpn(r.route.remote, qpn, m.ca_guid)) {",
     "if (Connection* const old = static_cast<Connection*>(nullptr)) {"),
    # Rej.ARepToNobodyIsRejected
    ("cm-reply-to-nobody-is-dropped", CM_ACTIVE,
     "return reject_message(core, r, {.local_id = m.remote_id,",
     "return; reject_message(core, r, {.local_id = m.remote_id,"),
    # fuzz.cm, ConnectionManagerTest.ARepToThePassiveEndIsDropped
    ("cm-passive-end-answers-a-reply", CM_ACTIVE,
     "if (!c.active || m.local_id != c.remote_id) {",
     "if (m.local_id != c.remote_id) {"),
    # CmProperty: one request was told twice
    ("cm-rejected-request-is-told-again", CM_REJ,
     "if (answers_req) core.remember(c, rej);",
     ""),
    # CmProperty: one request was told twice, after the owner destroyed it
    ("cm-destroyed-request-is-told-again", CM_DESTROY,
     "core.remember(c, send_rej(core, c, CmAnswered::req, RejectReason::consumer));",
     "send_rej(core, c, CmAnswered::req, RejectReason::consumer);"),
    # Mra.AfterItARejIsKeptLonger
    ("cm-mra-does-not-extend-the-answer", CM_MRA,
     "c.request_over = now + request_span(interval, c.max_retries);",
     "static_cast<void>(now + interval);"),
    # Retry.ARetriedReqGetsTheRepAgain
    ("cm-repeated-request-gets-no-reply", CM_PASSIVE,
     "return core.resend({c.route, c.pending.mad});",
     "return;"),
    # StaleConnection.ANewReqOfALiveQueuePairEndsTheOldConnection
    ("cm-stale-connection-stays", CM_PASSIVE,
     "disconnect_stale(core, old, r.now);",
     ""),
    # Connect.ImpossibleRequestsAreRejectedWithTheReason
    ("cm-any-gid-accepted", CM_PASSIVE,
     "if (m.primary.local != r.route.remote) {",
     "if (false) {"),
    # Connect.AFullBacklogDropsAndTheNextTryIsTaken
    ("cm-backlog-without-end", CM_PASSIVE,
     "if (listener->full()) {",
     "if (false) {"),
    # CmProperty.check_it_still_works: places are never given back
    ("cm-backlog-place-kept", CM_CORE,
     "leave_backlog(c);\n  ids.give_back",
     "ids.give_back"),
    # Timewait.ARetriedDreqGetsTheDrepAgain
    ("cm-dreq-of-a-forgotten-connection", CM_DISCONNECT,
     "return send_drep_for_unknown(core, r, m);",
     "return;"),
    # ConnectionManagerTest.StrangersChangeNothing
    ("cm-dreq-of-a-stranger", CM_DISCONNECT,
     "return send_drep_for_unknown(core, r, m);\n  }\n  if (c->route.remote != r.route.remote) {",
     "return send_drep_for_unknown(core, r, m);\n  }\n  if (false) {"),
    # Disconnect.ADreqForAnotherQueuePairIsDropped
    ("cm-dreq-of-another-queue-pair", CM_DISCONNECT,
     "if (m.remote_qpn != c->local.qpn) {",
     "if (false) {"),
    # Disconnect.ACrossingDreqIsAnswered
    ("cm-crossing-dreq-unanswered", CM_DISCONNECT,
     "send_drep(core, c);\n  core.tell(c, {.kind = EventKind::disconnected,",
     "core.tell(c, {.kind = EventKind::disconnected,"),
    # Mra.PostponesTheRetriesOnce
    ("cm-each-mra-prolongs", CM_MRA,
     "if (!awaited || c->pending.peer_is_busy) {",
     "if (!awaited) {"),
    # CmProperty: two endings
    ("cm-repeated-drep-ends-again", CM_DISCONNECT,
     "if (c->state != State::dreq_sent) {",
     "if (false) {"),
    # Destroy.SendsDreqUntilThePeerAnswers
    ("cm-destroy-forgets-the-peer", CM_DESTROY,
     "return send_dreq(core, c, {}, now);\n    case State::dreq_rcvd:",
     "return core.remove(c);\n    case State::dreq_rcvd:"),
    # Rej.ATimeoutRejEndsTheRequest
    ("cm-taken-back-request-stays", CM_REJ,
     "if (!m.remote_id.known()) return find_timed_out(core, r, m);",
     ""),
    # CmProperty: the QPN of a connection in timewait is free
    ("cm-timewait-tells-twice", CM_TIMEWAIT,
     "core.tell(c, {.kind = EventKind::timewait_exit});",
     "core.tell(c, {.kind = EventKind::timewait_exit}); core.tell(c, {.kind = EventKind::timewait_exit});"),
    # SidrTest.RetriesAreOneRequest
    ("cm-sidr-answer-forgotten", CM_SIDR,
     "core_.answers.remember({s.route.remote, s.request_id, s.transaction}, mad, s.request_over);",
     ""),
    # SidrTest.RetriesAreOneRequest
    ("cm-sidr-told-twice", CM_SIDR,
     "if (passive_.contains(key_of(r, m))) {",
     "if (false) {"),
    # ConnectionManagerTest.MessagesToOtherProcessesAreDropped,
    # Orphans.NobodyElseAnswersForALivingProcess
    ("cm-speaks-for-other-processes", CM_MANAGER,
     "if (!mad.orphaned && !is_for_us(good.message)) {",
     "if (false) {"),

    # ---- headers: these recompile everything

    # MemoryRegion.BoundsDoNotWrap, Scenario.AddressThatWrapsIsRefused
    ("key-bounds-wrap", MEMORY_REGION_HEADER,
     "at - iova <= length && size <= length - (at - iova);",
     "at + size <= iova + length;"),
    # RcCredits.EachAcknowledgementCountsFromWhatItAcknowledges
    ("credit-leak", CREDITS,
     "done_ + count_of(ack.credits())",
     "limit_.value_or(done_) + count_of(ack.credits())"),
    # RcCredits.OneMessageMoreThanThereAreReceivesMayAsk, CreditsProperty: waits for ever
    ("nobody-asks-for-credit", CREDITS,
     "return limit_ && number == std::max(*limit_, done_);",
     "return false;"),
    # RcCredits.OneMessageMoreThanThereAreReceivesMayAsk
    ("everybody-asks-for-credit", CREDITS,
     "return limit_ && number == std::max(*limit_, done_);",
     "return true;"),
    # CreditsProperty: a NAK has completed what asked
    ("limit-behind-what-is-complete", CREDITS,
     "number == std::max(*limit_, done_);",
     "number == *limit_;"),
    # static_assert
    ("psn-distance-does-not-wrap", PSN,
     "static_cast<std::int32_t>((a.v_ - b.v_) << 8) >> 8;",
     "static_cast<std::int32_t>(a.v_ - b.v_);"),
    # RcProperty: a READ's PSNs and its responses' part at the wrap
    ("psn-wraps-one-too-early", PSN,
     "Psn next() const { return Psn{v_ + 1}; }",
     "Psn next() const { return Psn{v_ + 1 == kMask ? 0 : v_ + 1}; }"),
    # Observed.TheRnicCountsQueuePairsThatAreGone
    ("gone-queue-pairs-not-counted", RNIC_QUEUES,
     "services_.counters += qp.counters;",
     ""),
    # Observed.WhatIsSentAgainIsSaidAndCounted
    ("retransmissions-not-counted", QUEUE_PAIR_HEADER,
     "if (again) ++qp.counters.retransmitted_pkts;",
     ""),
    # Observed.WhatIsSentAgainIsSaidAndCounted
    ("retry-after-a-nak-is-not-told", COMPLETER,
     "if (services.observer != nullptr) services.observer->retried(qp, why, qp.completer.unacked);",
     "if (services.observer != nullptr && why == RetryCause::timeout)"
     " services.observer->retried(qp, why, qp.completer.unacked);"),

    # ---- what the kernel's rxe sends, what ICMP says, and who speaks for the dead

    # RcCredits.SequenceNakBehindAnRnrNakUsesUpNoRetry
    ("sequence-nak-behind-an-rnr-nak-counts", COMPLETER,
     "if (is_waiting(qp.requester, now)) return;",
     ""),
    # RcCredits.LateSequenceNakBehindAnRnrNakUsesUpNoRetryEither
    ("late-sequence-nak-behind-an-rnr-nak-counts", COMPLETER,
     "c.retries_left = qp.attributes.retry_count; if (services",
     "if (services"),
    # Undelivered.OneReportOnlyAddsARetry
    ("cm-one-word-of-icmp-is-enough", CM_UNDELIVERED_BACKOFF,
     "if (reports_ >= kMinReports && now - first_report_ >= kGiveUpAfter) return std::nullopt;",
     "return std::nullopt;"),
    # Undelivered.ReportsThatDoNotQuoteTheReqAreDropped
    ("cm-forged-icmp-is-believed", CM_ROUTE,
     "std::equal(sent.bytes.begin(), sent.bytes.end(), back.bytes.begin(), back.bytes.end());",
     "true;"),
    # Undelivered.AnEstablishedConnectionIsLeftAlone, Undelivered.ReportsAfterTheAnswerAreDropped
    ("cm-icmp-ends-what-was-answered", CM_UNDELIVERED,
     "const bool waits = c.state == State::req_sent && !c.pending.peer_is_busy;",
     "const bool waits = true;"),
    # Disconnect.DrepsAreResentBeforeTheEnd
    ("cm-answers-its-own-dreqs", CM_DISCONNECT,
     "std::erase_if(answered, [](const Connection* c) { return !c->dreq_transaction; });",
     ""),
    # ListenerRetryTest.ALateRefusalIsFinal
    ("cm-asks-again-for-ever", CM_LISTENER_RETRY,
     "if (now + kInterval > give_up_at_) return std::nullopt;",
     ""),
    # ListenerRetryTest.AListenerThatIsOpenedMeanwhileGetsTheReq
    ("cm-refused-at-once", CM_LISTENER_RETRY,
     "if (now + kInterval > give_up_at_) return std::nullopt;",
     "return std::nullopt;"),
    # ListenerRetryTest.OtherReasonsAreFinal
    ("cm-asks-again-whatever-the-reason", CM_REJ,
     "if (m.reason != RejectReason::invalid_service_id) return false;",
     ""),
    # Retry.AReqIsRetriedTwiceEarlyAndFifteenTimesThenUnreachable
    ("cm-one-retry-too-few", CM_RETRY_SCHEDULE,
     "if (retries_left_ == 0) return false;",
     "if (retries_left_ <= 1) return false;"),
    # Undelivered.OneReportOnlyAddsARetry, EarlyRetry
    ("cm-early-retries-count", CM_RETRY_SCHEDULE,
     "if (counted_ > now) return true;",
     ""),
    # EarlyRetry.ALostReqCostsAFifthOfASecond and the like
    ("cm-nothing-is-retried-early", CM_RETRY_SCHEDULE,
     "return after <= early_within(interval_) ? sent_ + after : kNever;",
     "return after < Duration{} ? sent_ : kNever;"),
    # RetryScheduleTest.PostponeDropsTheRetriesBefore
    ("cm-busy-peer-is-pressed", CM_RETRY_SCHEDULE,
     "early_done_ = kEarly.size();",
     ""),
    # EarlyRetry.SlowOwnersSendNoMraAtFirst
    ("cm-early-request-gets-mra", CM_PASSIVE,
     "if (r.now >= c.early_until) send_mra_to_req(core, c, r.now);",
     "send_mra_to_req(core, c, r.now);"),
    # EarlyRetry.SlowOwnersSendNoMraAtFirst
    ("cm-early-reply-gets-mra", CM_ACTIVE,
     "} else if (c.state == State::rep_rcvd && r.now >= c.early_until) {",
     "} else if (c.state == State::rep_rcvd) {"),
    # Orphans.ADreqGetsADrep
    ("cm-nobody-speaks-for-the-dead", CM_MANAGER,
     "if (!mad.orphaned && !is_for_us(good.message)) {",
     "if (!is_for_us(good.message)) {"),

    # ---- the NIC thread: when it works, spins, sleeps and steps aside

    # ProgressPolicy.DataOfItsOwnEndsTheCount, ProgressSim.AProgramThatFoundSomething…
    ("progress-useful-rounds-count-as-outrun", PROGRESS,
     "outrun_ = round.useful && !poller_waited_ ? 0 : outrun_ + 1;",
     "outrun_ = outrun_ + 1;"),
    # ProgressPolicy.WhatItTookFromAPollerCountsAsOutrun
    ("progress-takes-a-pollers-packets-for-ever", PROGRESS,
     "round.useful && !poller_waited_ ? 0",
     "round.useful ? 0"),
    # ProgressPolicy.WhateverElseWakesItDoesNotCount
    ("progress-timers-count-as-outrun", PROGRESS,
     "if (woken_by_data_) outrun_ =",
     "outrun_ ="),
    # ProgressPolicy.WaitsForAPollerAQuarterOfTheNap
    ("progress-poller-without-a-core-is-given-up", PROGRESS,
     "if (silence > grace)",
     "if (silence > kPolling)"),
    # ProgressSim.NapsGrowFromFiftyMicrosecondsToEightHundred
    ("progress-naps-grow-without-end", PROGRESS,
     "nap_ = std::min(2 * nap_, kAsideMax);",
     "nap_ = 2 * nap_;"),
    # ProgressPolicy.BackOnDutyItWorksAtOnce
    ("progress-leaves-what-the-poller-left", PROGRESS,
     "round_.deadline = facts.now;",
     ""),
    # ProgressPolicy.ComesBackWhenRecalledThoughAProgramPolls
    ("progress-recall-is-not-heard", PROGRESS,
     "if (facts.recalled) return {.kind = Step::Kind::come_back};",
     ""),
    # ProgressSim.ControlIsServedWhileAside
    ("progress-control-waits-while-aside", PROGRESS,
     "if (wakeup.control) return {.kind = Step::Kind::work, .control = true};",
     ""),
    # ProgressPolicy.SpinsNotPastTheDeadline
    ("progress-spins-past-the-deadline", PROGRESS,
     "linger_until_ = std::min(round_.deadline, now + kLinger);",
     "linger_until_ = now + kLinger;"),
    # ProgressPolicy.StopsSpinningForAProgramThatPolls
    ("progress-spins-beside-a-poller", PROGRESS,
     "facts.now < linger_until_ && !polls_now(facts);",
     "facts.now < linger_until_;"),
    # ProgressPolicy.SpinsOnlyForDataThatComesSoonAndThatNobodyElseWaitsFor
    ("progress-spins-for-timers", PROGRESS,
     "data_came_soon_ = wakeup.data &&",
     "data_came_soon_ ="),
    # ProgressPolicy.NapsTwiceAsLongWhileAProgramPolls
    ("progress-first-nap-is-a-long-one", PROGRESS_HEADER,
     "kAsideMin = std::chrono::microseconds{50};",
     "kAsideMin = std::chrono::microseconds{100};"),
    # SpareCore.EveryThreadThatRunsNeedsACore
    ("progress-a-core-for-one-too-many", SPARE_CORE,
     "*running + others <= cores;",
     "*running + others <= cores + 1;"),
    # HostMemoryTest.PartsFromMemoryThatIsGoneAreRefused
    ("memory-gathers-from-nowhere", HOST_MEMORY,
     "return n == static_cast<ssize_t>(bytes);",
     "return n <= static_cast<ssize_t>(bytes);"),
    # HostMemoryTest.PartsOfFramesAreFilledInOrder
    ("memory-parts-are-as-far-apart-as-frames", HOST_MEMORY,
     "reinterpret_cast<void*>(address + i * size), size};",
     "reinterpret_cast<void*>(address + i * into.stride), size};"),
    # Scattered.MemoryThatIsGoneIsRefused
    ("memory-scatters-to-nowhere", HOST_MEMORY,
     "if (n != static_cast<ssize_t>(bytes)) return false;",
     ""),
    # Scattered.WithHeadersBetween
    ("memory-headers-take-no-place", HOST_MEMORY,
     "bytes += gap + c.from.size();",
     "bytes += c.from.size();"),
    # Words.AreExchangedWhereTheyAreAsExpected
    ("memory-swap-says-what-was-expected", HOST_MEMORY,
     "compare_exchange_strong(compare, swap); return compare;",
     "compare_exchange_strong(compare, swap); return swap;"),
    # Words.ThatAreGoneOrReadOnlyAreRefused: a signal
    ("memory-words-need-not-be-writable", HOST_MEMORY,
     "/*write=*/true",
     "/*write=*/false"),
    # Words.MayComeAndGoAtAnyMoment
    ("memory-words-that-are-gone-count", HOST_MEMORY,
     "if (word.done == 0) return std::nullopt;",
     ""),
    # GuardedCopySteps.StoreAscendingWholeWordsAndTheLastUnitAlone; this and the next two: on x86-64
    ("copy-ends-with-the-first-word", GUARDED_COPY,
     "movups %xmm0, (%rdi) movups %xmm1, 16(%rdi) movups %xmm2, 32(%rdi) movups %xmm3, 48(%rdi)",
     "movups %xmm3, 48(%rdi)\n movups %xmm2, 32(%rdi)\n"
     "movups %xmm1, 16(%rdi)\n movups %xmm0, (%rdi)\n"),
    # GuardedCopySteps.StoreAscendingWholeWordsAndTheLastUnitAlone
    ("copy-tears-where-it-begins-odd", GUARDED_COPY,
     "jnz 10f",
     "nop"),
    # GuardedCopySteps.LoadWholeWords
    ("copy-looks-at-the-frames-alignment", GUARDED_COPY,
     "mov %esi, %ecx",
     "mov %edi, %ecx"),
    # GuardedCopySteps.LandBehindTheirInstructions
    ("copy-lands-where-it-has-landed", GUARDED_COPY,
     "begin <= pc && pc < end ? end : 0",
     "begin <= pc && pc <= end ? end : 0"),
    # FaultHandler.RunsTheProgramsHandlerWithItsMask
    ("fault-handler-keeps-signals-out", FAULT_HANDLER,
     "let_signals_in(where, action);",
     ""),
    # FaultHandler.RunsTheProgramsHandlerWithItsMask
    ("fault-handler-forgets-its-own-signal", FAULT_HANDLER,
     "!= 0 ? mask : mask | bit_of(signal);",
     "!= 0 ? mask : mask;"),
    # FaultHandler.IsNotInterruptedByAHandlerThatFaultsOnItsOwn
    ("fault-handler-is-interrupted", FAULT_HANDLER,
     "std::memset(&ours.sa_mask, 0xff, sizeof ours.sa_mask);",
     ""),
    # FaultHandler.CallsAHandlerThatWantsToBeCalledOnceOnce: for ever
    ("fault-handler-is-called-for-ever", FAULT_HANDLER,
     "if (action.handler.compare_exchange_strong(handler, nullptr)) break;",
     "break;"),
    # FaultHandler.LeavesSentSignalsToTheDefaultAction
    ("fault-handler-takes-sent-signals-for-faults", FAULT_HANDLER,
     "return info.si_code > 0 && !warning;",
     "return !warning;"),
    # FaultHandler.IsNotTrustedByAnyThreadOnceTheSignalIsIgnored
    ("fault-handler-is-trusted-when-ignored", FAULT_HANDLER,
     "if (!is_ours(asked)) ignored.fetch_or(bit_of(signal));",
     ""),
    # NullMemory.ReadsAsZeros
    ("memory-null-reads-as-what-was-there", NULL_MEMORY,
     "std::fill(into.begin(), into.end(), std::uint8_t{0});",
     ""),
    # HostProperty.TheWayChangesWhateverTheNetworkLoses, of thousands of seeds
    ("read-pieces-grow", "src/engine/packets_again.cc",
     "if (distance(piece, r.psn) >= 0 && distance(last, piece) > 0) last = piece;",
     ""),
    # Host.AnEarlyRetryOfTheNetworkIsNotRepeatedByTheRing
    ("rings-have-early-retries", "src/engine/completer.cc",
     "if (way == packet::Way::host) c.early_at = kNever;",
     ""),
    # Host.WhoNeverGotRoomToAStoppedPeerIsGivenUpToo
    ("waits-for-room-without-a-timer", "src/engine/requester.cc",
     "if (goes_by_rings(qp)) note_held_back",
     "if (false) note_held_back"),
    # Host.WhoWaitsForRoomAtASlowPeerIsNotGivenUp
    ("held-back-by-a-slow-peer-is-given-up", "src/engine/completer.cc",
     "if (c.timeout_at != kNever && !took_some) return;",
     "if (c.timeout_at != kNever) return;"),
    # Host.WhoWaitsForAnAnswerOfASlowPeerDoesNotGiveItUp
    ("slow-peers-use-up-retries", "src/engine/peer_liveness.h",
     "return took || gave ||",
     "return"),
    # Host.AStoppedPeerIsGivenUpAfterAllTries
    ("stopped-peers-are-waited-for", "src/engine/peer_liveness.h",
     "return took || gave ||",
     "return true ||"),
    # Host.APeerThatTakesAllAndDoesNotAnswerIsGivenUp
    ("silent-peers-are-waited-for", "src/engine/peer_liveness.h",
     "} else if (p.taken >= *oldest_at_) {",
     "} else if (false) {"),
    # HostProperty.TheWayChangesOnlyBetweenPackets
    ("way-changes-between-any-packets", "src/engine/requester.cc",
     "if (qp.reliable() ? qp.completer.window.in_flight() != 0 : r.packet != 0) return;",
     ""),
    # HostProperty.AnswersLeaveTheWayTheRequestCame
    ("answers-take-the-network", "src/engine/rnic_receive.cc",
     "if (answer_by(qp.responder, datagram.way) &&",
     "if ("),
    # Interleaving.NothingIsLost: a thread waits for ever
    ("shm-publishes-without-a-fence", SHM_LINK,
     "link->publish(); full_fence();",
     "link->publish();"),
    ("shm-sleeps-without-a-fence", SHM_LINK,
     "link->say_asleep(); full_fence();",
     "link->say_asleep();"),
    ("shm-starves-without-a-fence", SHM_LINK,
     "full_fence(); return has_news();",
     "return has_news();"),
    ("shm-sleeps-without-a-last-look", SHM_LINK,
     "return std::ranges::none_of(links, [](Link* link) { return link->has_news(); });",
     "return true;"),
    ("shm-room-is-no-news", SHM_LINK,
     "if (!starved_ || !other_) return false;",
     "return false;"),
    # Waking.ASmallFrameDoesNotHideThatALargeOneWaits
    ("shm-who-found-room-speaks-for-all", SHM_LINK,
     "reserved_ = rooms.count; header_",
     "starved_ = false; reserved_ = rooms.count; header_"),
    ("shm-starved-asks-for-no-bell", SHM_LINK,
     "page.starved.store(starved_ ? 1 : 0, std::memory_order_relaxed);",
     ""),
    # Interleaving.NothingIsLost: the bell was rung twice in a sleep
    ("shm-rings-again-and-again", SHM_LINK,
     "rung_for_ = sleep; const",
     "const"),
    # Interleaving.NothingIsLost: bytes are overwritten that are in use
    ("shm-says-early-that-it-has-read", SHM_LINK,
     "own_.page().consumed.store(reader_->position(), std::memory_order_release);",
     "own_.page().consumed.store(reader_->position(), std::memory_order_relaxed);"),
    ("shm-takes-room-before-it-is-there", SHM_LINK,
     "other_.page().consumed.load(std::memory_order_acquire)",
     "other_.page().consumed.load(std::memory_order_relaxed)"),
    # Interleaving.NothingIsLost: bytes are read that may not be there
    ("shm-publishes-before-the-bytes", SHM_RING,
     "store(first_size_, std::memory_order_release);",
     "store(first_size_, std::memory_order_relaxed);"),
    ("shm-reads-before-it-is-published", SHM_RING,
     "reinterpret_cast<std::uint32_t*>(word)}.load(std::memory_order_acquire);",
     "reinterpret_cast<std::uint32_t*>(word)}.load(std::memory_order_relaxed);"),
    # Ring.TheReaderOfAFullRingStopsWhereTheWriterDid
    ("shm-no-cleared-word", SHM_RING,
     "size_of(header_at(head_)).store(0, std::memory_order_relaxed);",
     ""),
    # Ring.DoesNotGrowWhileTheTurnBeforeIsUnreadUpToTheOldEnd
    ("shm-grows-over-what-is-unread", SHM_RING,
     "wanted_ > capacity_ && usable() + kAlignment >= to_end",
     "wanted_ > capacity_"),
    # HostileWriter.IsFoundOut
    ("shm-wraps-for-ever", SHM_RING,
     "if (wraps ? wrapped : size == left) break;",
     "if (!wraps && size == left) break;"),
    ("shm-records-beyond-the-end", SHM_RING,
     "size % kAlignment != 0 || size > left",
     "size % kAlignment != 0"),
    # RingWriter.DoesNotBelieveAReaderThatGoesBackOrTooFar
    ("shm-believes-the-reader", SHM_RING,
     "if (consumed - consumed_ > published_ - consumed_) return false;",
     ""),
    # Link.AFrameIsNoLongerThanItsRecord
    ("shm-frame-beyond-its-record", SHM_LINK,
     "body.first(std::min<std::size_t>(header.frame, body.size()))",
     "std::span{body.data(), header.frame}"),
    # Segment.OfAnotherProcessHasAllSeals
    ("shm-one-seal-will-do", SHM_SEGMENT,
     "(seals & kSeals) != kSeals",
     "(seals & kSeals) == 0"),
    # Segment.IsNotInAForksChild
    ("shm-child-has-the-rings", SHM_SEGMENT,
     "::madvise(at, Segment::kBytes, MADV_DONTFORK) != 0",
     "false"),
    # Offers.OfAnotherSlotAreIgnored
    ("shm-offers-for-others", SHM_WIRE_LINKS,
     "said->slot != registry_.slot() && said->slot == message.from",
     "said->slot != registry_.slot()"),
    # Offers.ASecondOneEndsEvenIfTheFirstRingHasNoEnd
    ("shm-drains-for-ever", SHM_WIRE_LINKS,
     "link->finish(); if (link->ready()) receive_from",
     "if (link->ready()) receive_from"),
    # ShmWire.ALinkThatIsMadeInItsSleepWakesItsProcess
    ("shm-new-link-is-awake", SHM_WIRE_LINKS,
     "if (asleep_) link->say_asleep();",
     ""),
    # ShmLimits.SixtyFourProcessesNeedLessThan32MiBEach
    ("shm-grows-without-a-limit", SHM_WIRE_LINKS,
     "larger > Link::kMostRingBytes || ring_bytes_ + larger / 2 > kGrowsUpTo",
     "larger > Link::kMostRingBytes"),
    # TwoProcesses.NFramesCountAsNPacketsWithHeaders
    ("shm-headers-count-for-nothing", SHM_WIRE,
     "port.sent_bytes += reserved_bytes_ + sent_from_.headers;",
     "port.sent_bytes += reserved_bytes_;"),
    # ConnectionMemoryTest.ARowThatIsUsedAgainIsNotTheOldOne
    ("registry-used-row-is-the-old-one", CONNECTION_MEMORY,
     "RowHead::of(head).change + 1",
     "RowHead::of(head).change"),
    # ConnectionMemoryTest.NoRowInUseIsBeyondTheBound
    ("registry-rows-beyond-the-bound", CONNECTION_MEMORY,
     "raise_bound(i + 1);",
     "raise_bound(i);"),
    # ConnectionMemoryTest.WhatADyingProcessHadHalfWrittenMeansNothing
    ("registry-half-a-connection-is-read", CONNECTION_MEMORY,
     "seen.state() != RowState::complete && seen.state() != RowState::adopted",
     "seen.state() == RowState::free"),
    # ConnectionMemoryTest.WhatCannotBeAConnectionIsNotRead
    ("registry-what-cannot-be-is-read", CONNECTION_MEMORY,
     "return may_be(record) ? std::optional{record} : std::nullopt;",
     "return record;"),
    # ConnectionMemoryTest.ASlotsNextProcessDoesNotInheritConnections
    ("registry-next-process-inherits", SHARED_TABLE,
     "layout_->connections.disown(slot);",
     ""),
    # SharedTableTest.ADamagedInstantDoesNotLockASlot
    ("registry-damage-locks-a-slot", SHARED_TABLE,
     "word > nanoseconds(now) && word <= nanoseconds(now + kRest)",
     "word > nanoseconds(now)"),
    # SharedTableTest.TheDeathOfOneProcessDoesNotReleaseTheSlotOfTheNext
    ("registry-death-releases-the-next", SHARED_TABLE,
     "auto expected = static_cast<std::uint64_t>(tenancy);",
     "auto expected = layout_->slots[slot].load();"),
    # SharedTableTest.RestsASlotWhoseProcessEnded
    ("registry-slot-does-not-rest", SHARED_TABLE,
     "compare_exchange_strong(expected, nanoseconds(now + kRest))",
     "compare_exchange_strong(expected, 0)"),
    ("registry-dead-stay-members", SHARED_TABLE,
     "for (auto& member : layout_->members[slot]) member = kNoMember;",
     ""),
    # SharedTableTest.BelievesTheLatestRoundAndInItTheSmallestIndex
    ("registry-older-round-believed", SHARED_TABLE,
     "newer < 0 || (newer == 0 && place >= known->place)",
     "newer == 0 && place >= known->place"),
    ("registry-larger-place-believed", SHARED_TABLE,
     "newer == 0 && place >= known->place",
     "newer == 0 && place == known->place"),
    # SharedTableTest.ALinkLocalAddressIsOnePerInterface
    ("registry-link-local-is-one-for-all", SHARED_TABLE,
     "if (local.address.is_link_local())",
     "if (false)"),
    # SharedTableMap.RefusesWhatCouldShrink
    ("registry-table-may-shrink", SHARED_TABLE,
     "seals < 0 || (seals & kSeals) != kSeals",
     "seals < 0"),
    # Deaths.AFullBacklogHidesADeathForAMomentOnly
    ("registry-full-backlog-is-a-death", PEERS,
     "return error.code == ECONNREFUSED || error.code == EPERM;",
     "return error.code != 0;"),
    # Deaths.ANameThatAnotherUserHasTakenIsADeath
    ("registry-another-user-is-no-death", PEERS,
     "return error.code == ECONNREFUSED || error.code == EPERM;",
     "return error.code == ECONNREFUSED;"),
    # Deaths.TheNextProcessInASlotDoesNotHideTheDeathOfTheLast
    ("registry-successor-hides-a-death", PEERS,
     "if (predecessor(slot, tenancy)) return {Passed::busy};",
     ""),
]
