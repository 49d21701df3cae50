/* What happens in the middle of a message: its first bytes have arrived, its last one has not.
 *
 *   midway ROUNDS SIZE OPERATION ACTION
 *
 * OPERATION is write, send or read. ACTION happens to the requester in one round and to the
 * responder in the next:
 *
 *   kill stop pause           by the director, with signals; a pause is shorter than the retries
 *   exit exec                 by a thread of the end itself
 *   dereg munmap protect readonly error
 *                             the same: ibv_dereg_mr, munmap, mprotect to PROT_NONE and PROT_READ,
 *                             the queue pair to the error state
 *   truncate                  by the director: the file behind the memory gets shorter
 *
 * Each end must see the status that the specification says, and nothing else: no signal, no byte in
 * a wrong place, no byte after the action where it forbids that. An action that comes too late for
 * the middle doesn't count, and its round is repeated. */
#include "watched_ends.h"

enum { kMisses = 200 /* rounds that may come too late, for each that counts */ };

enum action {
  kKill,
  kStop,
  kPause,
  kExit,
  kExec,
  kDereg,
  kMunmap,
  kProtect,
  kReadOnly,
  kError,
  kTruncate,
  kActions
};
static const char* const kActionNames[] = {"kill",     "stop",  "pause",   "exit",
                                           "exec",     "dereg", "munmap",  "protect",
                                           "readonly", "error", "truncate"};
static const char* const kOperationNames[] = {"write", "send", "read"};
static const char* const kEndNames[] = {"requester", "responder"};

struct round {
  enum operation operation;
  enum action action;
  enum end_name victim;
  struct memory source, destination;
  size_t at; /* the byte of the destination whose arrival is waited for */
  const char* self;
};

static const struct memory* memory_of(const struct round* r, enum end_name who) {
  return has_source(who, r->operation) ? &r->source : &r->destination;
}

/* ---------------------------------------------------------------- what must happen */

enum { kNone = -1 /* no completion */ };

static bool dies(enum action a) { return a == kKill || a == kExit || a == kExec; }

static bool takes_memory(const struct round* r) {
  switch (r->action) {
    case kDereg:
    case kMunmap:
    case kProtect:
    case kTruncate:
      return true;
    case kReadOnly:
      return !has_source(r->victim, r->operation);
    default:
      return false;
  }
}

static int expected_of_requester(const struct round* r) {
  const bool own = r->victim == kRequester;
  if (takes_memory(r)) {
    if (own) return IBV_WC_LOC_PROT_ERR;
    return r->operation == kSend ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR;
  }
  if (r->action == kError) return own ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR;
  if (dies(r->action)) return own ? kNone : IBV_WC_RETRY_EXC_ERR;
  return r->action == kStop && !own ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS;
}

/* Of a SEND's receive. */
static int expected_of_responder(const struct round* r) {
  if (r->operation != kSend) return kNone;
  const bool own = r->victim == kResponder;
  if (own && takes_memory(r)) return IBV_WC_LOC_PROT_ERR;
  if (own && dies(r->action)) return kNone;
  /* A receive that has begun and doesn't end is flushed when its end cleans up. */
  return expected_of_requester(r) == IBV_WC_SUCCESS ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR;
}

/* Short where the retries must end, long where they mustn't. */
static struct patience patience_of(const struct round* r) {
  if (expected_of_requester(r) == IBV_WC_RETRY_EXC_ERR) return (struct patience){16, 2};
  if (r->action == kStop) return (struct patience){14, 1}; /* of the requester */
  return (struct patience){17, 7};
}

/* The least and the most that the specification lets the retries take. */
static double retries_last(struct patience p) {
  return 4.096e-6 * (double)(1u << p.timeout) * (p.retries + 1);
}
static double retries_last_at_most(struct patience p) { return 4 * retries_last(p); }

/* Nothing arrives any more when such an action of the destination's end is over. */
static bool ends_arrivals(const struct round* r) {
  if (has_source(r->victim, r->operation)) return false;
  return r->action == kError || (takes_memory(r) && r->action != kTruncate);
}

/* ---------------------------------------------------------------- the ends */

struct victim {
  const struct round* round;
  struct end* end;
};

/* Another program takes the place of this one: its device works, and it stays. */
static void become_another(const struct round* r) {
  execl(r->self, r->self, "remain", (char*)NULL);
  CHECK(!"execl");
}

static int remain(void) {
  struct pair p = connect_pair();
  const struct ibv_sge sge = sge_of(&p, 0, 4096);
  struct ibv_send_wr wr = {
      .sg_list = (struct ibv_sge*)&sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
  wr.wr.rdma.remote_addr = (uintptr_t)p.memory + 8192;
  wr.wr.rdma.rkey = p.mr->rkey;
  memset(p.memory, 0x5a, 4096);
  CHECK(send_and_wait(p.cq, p.qp[0], wr) == IBV_WC_SUCCESS);
  CHECK(memcmp(p.memory, p.memory + 8192, 4096) == 0);
  CHECK(kill(getpid(), SIGSTOP) == 0); /* the director waits for this */
  return 0;
}

static void act(const struct round* r, struct end* e) {
  uint8_t* const region = e->map + kGuard;
  switch (r->action) {
    case kExit:
      exit(0);
    case kExec:
      become_another(r);
      break;
    case kDereg:
      CHECK(ibv_dereg_mr(e->mr) == 0);
      e->mr = NULL;
      if (has_source(e->who, r->operation)) memset(region, 0x55, r->source.size);
      break;
    case kMunmap:
      CHECK(munmap(e->map, e->map_size) == 0);
      break;
    case kProtect:
      CHECK(mprotect(e->map, e->map_size, PROT_NONE) == 0);
      break;
    case kReadOnly:
      CHECK(mprotect(e->map, e->map_size, PROT_READ) == 0);
      break;
    case kError: {
      struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
      CHECK(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE) == 0);
      break;
    }
    default:
      break; /* the director's */
  }
}

static bool acts_itself(enum action a) { return a >= kExit && a != kTruncate; }

static void* act_midway(void* argument) {
  const struct victim* v = argument;
  const struct memory* d = &v->round->destination;
  if (!wait_for_byte(d, v->round->at)) {
    board->declined = true;
    return NULL;
  }
  board->acted_at = now();
  act(v->round, v->end);
  board->extent = quick_extent(d->region, d->size);
  board->acted = true;
  return NULL;
}

/* The completion, unless there is none before the end is to leave. */
static int wait_for_status(struct end* e) {
  struct ibv_wc wc;
  int n = 0;
  while ((n = ibv_poll_cq(e->cq, 1, &wc)) == 0 && !board->leave) {
    if (e->who == kResponder) pause_or_give_up();
    CHECK(time(NULL) < limit);
  }
  CHECK(n >= 0);
  if (n == 0) return kNone;
  /* Of the one request, or the one receive; the opcode of a failed one says nothing. */
  CHECK(wc.qp_num == e->qp->qp_num);
  if (wc.status == IBV_WC_SUCCESS && e->who == kResponder) CHECK(wc.byte_len == e->region.length);
  return (int)wc.status;
}

/* A receive that nothing has ended. */
static int flush(struct end* e) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  CHECK(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE) == 0);
  return (int)next_completion(e->cq).status;
}

static void play(enum end_name who, const struct round* r) {
  CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
  struct end e = open_end(who, r->operation, memory_of(r, who), patience_of(r));
  struct victim v = {r, &e};
  pthread_t thread;
  const bool victim = r->victim == who && acts_itself(r->action);
  if (victim) CHECK(pthread_create(&thread, NULL, act_midway, &v) == 0);
  if (who == kRequester) post_request(&e, r->operation);
  const bool expects = who == kRequester || r->operation == kSend;
  int status = expects ? wait_for_status(&e) : kNone;
  board->done_at[who] = now();
  board->status[who] = status;
  board->done[who] = true;
  while (!board->leave) pause_or_give_up();
  if (expects && status == kNone) board->status[who] = flush(&e);
  if (victim) CHECK(pthread_join(thread, NULL) == 0);
  close_end(&e);
}

/* ---------------------------------------------------------------- the director */

static void complain(const struct round* r, const char* what) {
  fprintf(stderr, "%s, %s of the %s at byte %zu of %zu: %s\n", kOperationNames[r->operation],
          kActionNames[r->action], kEndNames[r->victim], r->at, r->source.size, what);
  exit(1);
}

static const char* name_of_status(int status) {
  return status == kNone ? "no completion" : ibv_wc_status_str((enum ibv_wc_status)status);
}

/* The NAK of a READ's responder comes behind a flood of responses. A socket may lose it, and the
 * responder, which is in the error state, doesn't repeat it. */
static bool nak_may_be_lost(const struct round* r) {
  const char* const wire = getenv("VERBENA_WIRE");
  return r->operation == kRead && r->victim == kResponder && takes_memory(r) && wire != NULL &&
         strcmp(wire, "udp") == 0;
}

static void expect_status(const struct round* r, enum end_name who, int wanted) {
  const int status = board->status[who];
  if (status == wanted || (status == IBV_WC_RETRY_EXC_ERR && nak_may_be_lost(r))) return;
  char text[256];
  snprintf(text, sizeof text, "the %s has \"%s\", not \"%s\"", kEndNames[who],
           name_of_status(status), name_of_status(wanted));
  complain(r, text);
}

/* By itself and well, unless it was killed. */
static void expect_end(const struct round* r, enum end_name who, int status) {
  const bool killed = r->action == kKill && r->victim == who;
  if (killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0) return;
  char text[256];
  snprintf(text, sizeof text, "the %s ended with %s %d", kEndNames[who],
           WIFSIGNALED(status) ? "signal" : "exit status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  complain(r, text);
}

/* Stopped, or dead; not reaped, so its number stays its own. Or it has come too late to act. */
static void wait_until(pid_t pid, int state) {
  siginfo_t found = {0};
  while (found.si_pid == 0 && !board->declined) {
    CHECK(waitid(P_PID, (id_t)pid, &found, state | WNOWAIT | WNOHANG) == 0);
    if (found.si_pid == 0) pause_or_give_up();
  }
}

static void sleep_for(double seconds) {
  const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  CHECK(nanosleep(&t, NULL) == 0);
}

/* The end stands still, for as long as the action says, and goes on. */
static void stop_for_a_while(const struct round* r, pid_t pid) {
  const struct patience patience = patience_of(r);
  if (r->action == kPause) {
    sleep_for(retries_last(patience) / 8);
  } else if (r->victim == kRequester) {
    sleep_for(retries_last_at_most(patience) * 1.5);
  } else {
    while (!board->done[kRequester]) pause_or_give_up();
  }
  CHECK(kill(pid, SIGCONT) == 0);
}

static void cut_file(const struct round* r) {
  const struct memory* m = memory_of(r, r->victim);
  const struct memory* d = &r->destination;
  const size_t arrived = quick_extent(d->region, d->size);
  /* Between what has arrived and the end, where the next copies come to it. */
  const size_t keep = arrived + (d->size - arrived) / 8;
  CHECK(ftruncate(m->file, (off_t)(kGuard + keep)) == 0);
}

/* True: when the action was over, the last byte had not arrived. */
static bool direct(const struct round* r, const pid_t pid[2]) {
  const volatile uint8_t* const last = r->destination.region + r->destination.size - 1;
  const pid_t victim = pid[r->victim];
  if (!wait_for_byte(&r->destination, r->at)) return false;
  bool midway = false;
  if (!acts_itself(r->action)) board->acted_at = now();
  switch (r->action) {
    case kKill:
      CHECK(kill(victim, SIGKILL) == 0);
      wait_until(victim, WEXITED);
      break;
    case kStop:
    case kPause:
      CHECK(kill(victim, SIGSTOP) == 0);
      wait_until(victim, WSTOPPED);
      break;
    case kTruncate:
      midway = *last == 0;
      cut_file(r);
      return midway;
    case kExit:
      wait_until(victim, WEXITED);
      break;
    case kExec:
      wait_until(victim, WSTOPPED);
      break;
    default:
      while (!board->acted && !board->declined) sched_yield();
      break;
  }
  midway = *last == 0;
  if (r->action == kStop || r->action == kPause) stop_for_a_while(r, victim);
  return midway;
}

static bool is_victim(const struct round* r, int who) { return who == (int)r->victim; }

static bool is_survivor(const struct round* r, int who) {
  return !is_victim(r, who) || !dies(r->action);
}

/* Until each survivor has its completion, if one comes by itself. */
static void wait_for_completions(const struct round* r, bool midway) {
  while (is_survivor(r, kRequester) && !board->done[kRequester]) pause_or_give_up();
  const int wanted = expected_of_responder(r);
  const bool comes =
      wanted == IBV_WC_SUCCESS || wanted == IBV_WC_LOC_PROT_ERR ||
      (wanted == IBV_WC_WR_FLUSH_ERR && r->action == kError && is_victim(r, kResponder));
  while (midway && comes && !board->done[kResponder]) pause_or_give_up();
}

static void check_patience(const struct round* r, double took) {
  const struct patience p = patience_of(r);
  if (expected_of_requester(r) != IBV_WC_RETRY_EXC_ERR) return;
  /* The peer may have been silent for a while when it happened; and a machine that is busy may
   * need a second more. */
  const double once = retries_last(p) / (p.retries + 1);
  if (retries_last(p) - once <= took && took <= retries_last_at_most(p) + 1) return;
  char text[256];
  snprintf(text, sizeof text, "the retries ended after %.2f s, not between %.2f s and %.2f s", took,
           retries_last(p), retries_last_at_most(p));
  complain(r, text);
}

static bool succeeded(void) {
  return board->status[kRequester] == IBV_WC_SUCCESS || board->status[kResponder] == IBV_WC_SUCCESS;
}

/* All of a source may have been read, and be under way, before its last byte arrives: then the
 * other end may see the end of the message. A file is cut ahead of the transfer, perhaps in vain.
 */
static bool came_too_late(const struct round* r) {
  if (expected_of_requester(r) == IBV_WC_SUCCESS) return false;
  if (r->action == kTruncate) return succeeded();
  if (!has_source(r->victim, r->operation)) return false;
  return takes_memory(r) ? succeeded() : board->status[!r->victim] == IBV_WC_SUCCESS;
}

static void check_memory(const struct round* r, bool midway) {
  const size_t extent = checked_extent(&r->destination);
  if (midway && extent < r->at && bytes_left(&r->destination) == r->destination.size) {
    complain(r, "bytes that had arrived are gone");
  }
  if (extent < r->at && !midway) complain(r, "the transfer failed before anything happened to it");
  if (succeeded() && extent != bytes_left(&r->destination)) {
    complain(r, "a success, though bytes are missing");
  }
  if (ends_arrivals(r) && board->acted && extent != board->extent) {
    char text[256];
    snprintf(text, sizeof text, "%zu bytes had arrived when the action was over, and %zu later",
             (size_t)board->extent, extent);
    complain(r, text);
  }
}

/* False: it came too late for the middle. */
static bool run_round(const struct round* r) {
  limit = time(NULL) + kPatience;
  memset(board, 0, sizeof *board);
  for (int who = 0; who < 2; ++who) board->status[who] = kNone;
  clear_memory(&r->destination);
  pid_t pid[2];
  for (int who = 0; who < 2; ++who) {
    pid[who] = fork();
    CHECK(pid[who] >= 0);
    if (pid[who] == 0) {
      play(who, r);
      exit(0);
    }
  }
  const bool midway = direct(r, pid);
  wait_for_completions(r, midway);
  board->leave = true;
  if (r->action == kExec) CHECK(kill(pid[r->victim], SIGCONT) == 0);
  for (int who = 0; who < 2; ++who) {
    int status = 0;
    CHECK(waitpid(pid[who], &status, 0) == pid[who]);
    expect_end(r, who, status);
  }
  check_memory(r, midway);
  if (!midway || came_too_late(r)) return false;
  for (int who = 0; who < 2; ++who) {
    if (!is_survivor(r, who)) continue;
    expect_status(r, who, who == kRequester ? expected_of_requester(r) : expected_of_responder(r));
  }
  check_patience(r, board->done_at[kRequester] - board->acted_at);
  return true;
}

static int choose(const char* word, const char* const* names, int count) {
  for (int i = 0; i < count; ++i) {
    if (strcmp(word, names[i]) == 0) return i;
  }
  fprintf(stderr, "midway: there is no \"%s\"\n", word);
  exit(2);
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "remain") == 0) return remain();
  if (argc != 5) return fprintf(stderr, "midway ROUNDS SIZE OPERATION ACTION\n"), 2;
  const int rounds = atoi(argv[1]);
  const size_t size = strtoull(argv[2], NULL, 10);
  CHECK(rounds > 0 && size >= 1 << 20);
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(board != MAP_FAILED);
  struct round r = {.operation = choose(argv[3], kOperationNames, 3),
                    .action = choose(argv[4], kActionNames, kActions),
                    .source = make_memory("source", size),
                    .destination = make_memory("destination", size),
                    .self = argv[0]};
  fill_with_pattern(r.source.region, size);
  int late = 0;
  for (int round = 0; round < 2 * rounds;) {
    r.victim = round % 2;
    r.at = size / 64 + (size_t)random() % (size / 2);
    if (run_round(&r)) {
      ++round;
    } else if (++late > kMisses * rounds) {
      complain(&r, "never in the middle");
    }
    if (r.action == kTruncate) {
      CHECK(ftruncate(r.source.file, (off_t)map_size(size)) == 0);
      fill_with_pattern(r.source.region, size);
    }
  }
  printf("%d times in the middle, %d times too late\n", 2 * rounds, late);
  return 0;
}
