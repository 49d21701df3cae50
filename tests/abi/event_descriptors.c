/* Descriptors that tell of events: of a completion channel, of a context's asynchronous events, of
 * an rdma_cm channel. Each is readable while an event waits and never writable, however it is
 * asked; each new event is an edge; a copy, here or in another process, says the same. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"

static struct pair p;
static struct rdma_event_channel* channel;
static struct rdma_cm_id* ids[2]; /* one for each event that waits at a time */
static int resolved;

struct kind {
  const char* name;
  int fd;
  void (*raise)(void); /* one event */
  int (*take)(void);   /* 0, or -1 and errno */
};

/* The two completions are taken, their event is not. */
static void raise_completion(void) {
  CHECK(ibv_req_notify_cq(p.cq, 0) == 0);
  post_receive(&p, 1, 2, 0, 64);
  struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr* bad = NULL;
  CHECK(ibv_post_send(p.qp[0], &wr, &bad) == 0);
  for (int i = 0; i < 2; ++i) CHECK(next_completion(p.cq).status == IBV_WC_SUCCESS);
}

static int take_completion(void) {
  struct ibv_cq* cq;
  void* context;
  if (ibv_get_cq_event(p.channel, &cq, &context) != 0) return -1;
  CHECK(cq == p.cq);
  ibv_ack_cq_events(cq, 1);
  return 0;
}

static void raise_asynchronous(void) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
  CHECK(ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
  CHECK(ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE) == 0);
}

static int take_asynchronous(void) {
  struct ibv_async_event event;
  if (ibv_get_async_event(p.context, &event) != 0) return -1;
  CHECK(event.event_type == IBV_EVENT_SQ_DRAINED && event.element.qp == p.qp[0]);
  ibv_ack_async_event(&event);
  return 0;
}

static void raise_connection(void) {
  struct rdma_cm_id** const id = &ids[resolved++ % 2];
  if (*id != NULL) CHECK(rdma_destroy_id(*id) == 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(1)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(rdma_create_id(channel, id, NULL, RDMA_PS_TCP) == 0);
  CHECK(rdma_resolve_addr(*id, NULL, (struct sockaddr*)&to, 1000) == 0);
}

static int take_connection(void) {
  struct rdma_cm_event* event;
  if (rdma_get_cm_event(channel, &event) != 0) return -1;
  CHECK(event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
  return rdma_ack_cm_event(event);
}

/* What poll() says at once. */
static short polled(int fd) {
  struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT | POLLWRNORM | POLLWRBAND};
  CHECK(poll(&one, 1, 0) >= 0);
  return one.revents;
}

static int selected(int fd, int* writable) {
  fd_set in, out, odd;
  FD_ZERO(&in);
  FD_ZERO(&out);
  FD_ZERO(&odd);
  FD_SET(fd, &in);
  FD_SET(fd, &out);
  FD_SET(fd, &odd);
  struct timeval now = {0};
  CHECK(select(fd + 1, &in, &out, &odd, &now) >= 0);
  *writable = FD_ISSET(fd, &out);
  CHECK(!FD_ISSET(fd, &odd));
  return FD_ISSET(fd, &in);
}

static int watch(int fd, uint32_t events) {
  const int set = epoll_create1(EPOLL_CLOEXEC);
  CHECK(set >= 0);
  struct epoll_event wanted = {.events = events};
  CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &wanted) == 0);
  return set;
}

/* What epoll reports within the time; 0: nothing. */
static uint32_t reported(int set, int milliseconds) {
  struct epoll_event event;
  const int n = epoll_wait(set, &event, 1, milliseconds);
  CHECK(n >= 0);
  return n == 1 ? event.events : 0;
}

static void check_state(const struct kind* k, int fd, int waits) {
  int writable = 1;
  CHECK(polled(fd) == (waits ? POLLIN : 0));
  CHECK(selected(fd, &writable) == waits && !writable);
  const int level = watch(fd, EPOLLIN | EPOLLOUT), edge = watch(fd, EPOLLIN | EPOLLOUT | EPOLLET),
            exclusive = watch(fd, EPOLLIN | EPOLLOUT | EPOLLEXCLUSIVE);
  for (int i = 0; i < 2; ++i) CHECK(reported(level, 0) == (waits ? EPOLLIN : 0));
  CHECK(reported(exclusive, 0) == (waits ? EPOLLIN : 0));
  CHECK(reported(edge, 0) == (waits ? EPOLLIN : 0));
  CHECK(reported(edge, 0) == 0); /* no second edge for the same event */
  CHECK(close(level) == 0 && close(edge) == 0 && close(exclusive) == 0);
  (void)k;
}

static void test_states(const struct kind* k) {
  check_state(k, k->fd, 0);
  k->raise();
  check_state(k, k->fd, 1);
  k->raise();
  CHECK(k->take() == 0);
  check_state(k, k->fd, 1);
  CHECK(k->take() == 0);
  check_state(k, k->fd, 0);
}

static void test_edges(const struct kind* k) {
  const int set = watch(k->fd, EPOLLIN | EPOLLOUT | EPOLLET);
  CHECK(reported(set, 0) == 0);
  for (int i = 0; i < 2; ++i) { /* the second while the first waits */
    k->raise();
    CHECK(reported(set, 5000) == EPOLLIN);
    CHECK(reported(set, 0) == 0);
  }
  CHECK(k->take() == 0 && k->take() == 0);
  CHECK(reported(set, 0) == 0); /* taking one is no edge */
  k->raise();
  CHECK(reported(set, 5000) == EPOLLIN && k->take() == 0 && close(set) == 0);
}

static void test_copies(const struct kind* k) {
  const int copy = dup(k->fd);
  CHECK(copy >= 0);
  const int flags = fcntl(copy, F_GETFL);
  CHECK(flags >= 0 && fcntl(copy, F_SETFL, flags | O_NONBLOCK) == 0);
  errno = 0;
  CHECK(k->take() == -1 && errno == EAGAIN); /* the flag is of both */
  k->raise();
  check_state(k, copy, 1);
  CHECK(k->take() == 0);
  check_state(k, copy, 0);
  CHECK(fcntl(copy, F_SETFL, flags) == 0 && close(copy) == 0);
}

static void pass(int over, int fd) {
  union {
    char bytes[CMSG_SPACE(sizeof fd)];
    struct cmsghdr align;
  } control = {{0}};
  char byte = 0;
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  struct cmsghdr* const header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){
      .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  CHECK(sendmsg(over, &message, 0) == 1);
}

static int receive(int over) {
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  char byte;
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  CHECK(recvmsg(over, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL);
  int fd;
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

/* Another process watches; this one raises and takes. */
static void test_passed(const struct kind* k) {
  int sockets[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    char turn;
    const int fd = receive(sockets[1]);
    const int edge = watch(fd, EPOLLIN | EPOLLOUT | EPOLLET);
    CHECK(polled(fd) == 0 && reported(edge, 0) == 0);
    CHECK(write(sockets[1], "w", 1) == 1); /* watching */
    CHECK(reported(edge, 5000) == EPOLLIN && polled(fd) == POLLIN);
    CHECK(write(sockets[1], "s", 1) == 1);                 /* seen */
    CHECK(read(sockets[1], &turn, 1) == 1 && turn == 't'); /* taken */
    CHECK(polled(fd) == 0);
    _exit(0);
  }
  char turn;
  pass(sockets[0], k->fd);
  CHECK(read(sockets[0], &turn, 1) == 1 && turn == 'w');
  k->raise();
  CHECK(read(sockets[0], &turn, 1) == 1 && turn == 's');
  CHECK(k->take() == 0 && write(sockets[0], "t", 1) == 1);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(close(sockets[0]) == 0 && close(sockets[1]) == 0);
}

static void* take_in_thread(void* kind) {
  CHECK(((const struct kind*)kind)->take() == 0);
  return NULL;
}

/* Threads that wait get an event each. */
static void test_waiting(const struct kind* k) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    CHECK(pthread_create(&threads[i], NULL, take_in_thread, (void*)k) == 0);
  }
  for (int i = 0; i < 2; ++i) k->raise();
  for (int i = 0; i < 2; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(polled(k->fd) == 0);
}

static volatile sig_atomic_t alarms;
static void on_alarm(int number) {
  (void)number;
  ++alarms;
}

/* As a call to the kernel's devices does: with SA_RESTART a signal doesn't end the wait. */
static void* interrupt(void* thread) {
  for (int i = 0; i < 2; ++i) {
    usleep(20000); /* nothing tells that the thread waits by now */
    CHECK(pthread_kill(*(pthread_t*)thread, SIGUSR1) == 0);
    while (alarms <= i) usleep(1000); /* a second one would be merged with it */
  }
  usleep(20000);
  return NULL;
}

static void test_signals(const struct kind* k) {
#ifdef __SANITIZE_THREAD__
  printf("skipped: %s with signals (ThreadSanitizer keeps them until the call has ended)\n",
         k->name);
  return;
#endif
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  alarms = 0;
  pthread_t taker, killer;
  CHECK(pthread_create(&taker, NULL, take_in_thread, (void*)k) == 0);
  CHECK(pthread_create(&killer, NULL, interrupt, &taker) == 0);
  CHECK(pthread_join(killer, NULL) == 0 && alarms == 2);
  k->raise();
  CHECK(pthread_join(taker, NULL) == 0);
}

/* Just enough of io_uring: one request at a time. */
struct uring {
  int fd;
  unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
  struct io_uring_sqe* requests;
  struct io_uring_cqe* answers;
};

static int open_uring(struct uring* u) {
  struct io_uring_params params = {0};
  u->fd = (int)syscall(SYS_io_uring_setup, 4, &params);
  if (u->fd < 0) return -1;
  CHECK(params.features & IORING_FEAT_SINGLE_MMAP);
  char* const ring =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd, (off_t)IORING_OFF_SQ_RING);
  u->requests = mmap(NULL, 4 * sizeof *u->requests, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd,
                     (off_t)IORING_OFF_SQES);
  CHECK(ring != MAP_FAILED && u->requests != MAP_FAILED);
  u->sq_tail = (unsigned*)(ring + params.sq_off.tail);
  u->sq_mask = (unsigned*)(ring + params.sq_off.ring_mask);
  u->sq_array = (unsigned*)(ring + params.sq_off.array);
  u->cq_head = (unsigned*)(ring + params.cq_off.head);
  u->cq_tail = (unsigned*)(ring + params.cq_off.tail);
  u->cq_mask = (unsigned*)(ring + params.cq_off.ring_mask);
  u->answers = (struct io_uring_cqe*)(ring + params.cq_off.cqes);
  return 0;
}

static void submit_poll(struct uring* u, int fd, unsigned events) {
  const unsigned at = *u->sq_tail & *u->sq_mask;
  u->requests[at] =
      (struct io_uring_sqe){.opcode = IORING_OP_POLL_ADD, .fd = fd, .poll32_events = events};
  u->sq_array[at] = at;
  __atomic_store_n(u->sq_tail, *u->sq_tail + 1, __ATOMIC_RELEASE);
  CHECK(syscall(SYS_io_uring_enter, u->fd, 1, 0, 0, NULL, 0) == 1);
}

static int answered(struct uring* u) {
  return __atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE) != *u->cq_head;
}

static void test_uring(const struct kind* k) {
  struct uring u;
  if (open_uring(&u) != 0) {
    printf("skipped: %s with io_uring (%s)\n", k->name, strerror(errno));
    return;
  }
  submit_poll(&u, k->fd, POLLIN | POLLOUT);
  CHECK(!answered(&u)); /* neither readable nor writable */
  k->raise();
  CHECK(syscall(SYS_io_uring_enter, u.fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 0);
  CHECK(answered(&u) && u.answers[*u.cq_head & *u.cq_mask].res == POLLIN);
  CHECK(k->take() == 0);
  CHECK(close(u.fd) == 0);
}

int main(void) {
  p = connect_pair();
  channel = rdma_create_event_channel();
  CHECK(channel != NULL);
  const struct kind kinds[] = {
      {"a completion channel", p.channel->fd, raise_completion, take_completion},
      {"asynchronous events", p.context->async_fd, raise_asynchronous, take_asynchronous},
      {"an rdma_cm channel", channel->fd, raise_connection, take_connection},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    const struct kind* const k = &kinds[i];
    fprintf(stderr, "%s\n", k->name);
    test_states(k);
    test_edges(k);
    test_copies(k);
    test_waiting(k);
    test_signals(k);
    test_uring(k);
    test_passed(k);
  }
  for (int i = 0; i < 2; ++i) CHECK(rdma_destroy_id(ids[i]) == 0);
  rdma_destroy_event_channel(channel);
  destroy_pair(&p);
  return 0;
}
