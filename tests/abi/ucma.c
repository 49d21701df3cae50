/* /dev/infiniband/rdma_cm by hand: commands that librdmacm would never write get the kernel's
 * errnos, and the descriptor is one that poll(), dup(), fork() and close() know. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"

#define DEVICE_FILE "/dev/infiniband/rdma_cm"

enum { kTcp = 0x0106 };
/* Newer than the oldest headers. */
enum { kResolveService = RDMA_USER_CM_CMD_JOIN_MCAST + 1, kWriteEvent, kUser = 18, kInternal };

static int open_channel(int flags) {
  const int fd = open(DEVICE_FILE, O_RDWR | O_CLOEXEC | flags);
  CHECK(fd >= 0);
  return fd;
}

/* 0, or the errno. */
static int command(int fd, uint32_t number, const void* in, size_t size, size_t room) {
  char bytes[1024];
  const struct rdma_ucm_cmd_hdr header = {number, (uint16_t)size, (uint16_t)room};
  memcpy(bytes, &header, sizeof header);
  memcpy(bytes + sizeof header, in, size);
  errno = 0;
  const ssize_t written = write(fd, bytes, sizeof header + size);
  if (written < 0) return errno;
  CHECK((size_t)written == sizeof header + size);
  return 0;
}

static uint32_t create_id(int fd, uint64_t uid) {
  struct rdma_ucm_create_id_resp answer = {0};
  const struct rdma_ucm_create_id in = {
      .uid = uid, .response = (uintptr_t)&answer, .ps = kTcp, .qp_type = IBV_QPT_RC};
  CHECK(command(fd, RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof in, sizeof answer) == 0);
  return answer.id;
}

static int destroy_id(int fd, uint32_t id) {
  struct rdma_ucm_destroy_id_resp answer;
  const struct rdma_ucm_destroy_id in = {.response = (uintptr_t)&answer, .id = id};
  return command(fd, RDMA_USER_CM_CMD_DESTROY_ID, &in, sizeof in, sizeof answer);
}

/* An ADDR_RESOLVED of `id` will wait. */
static int resolve(int fd, uint32_t id) {
  struct rdma_ucm_resolve_ip in = {.id = id, .timeout_ms = 1000};
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(1)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  memcpy(&in.dst_addr, &to, sizeof to);
  return command(fd, RDMA_USER_CM_CMD_RESOLVE_IP, &in, sizeof in, 0);
}

static int get_event(int fd, struct rdma_ucm_event_resp* event) {
  const struct rdma_ucm_get_event in = {.response = (uintptr_t)event};
  return command(fd, RDMA_USER_CM_CMD_GET_EVENT, &in, sizeof in, sizeof *event);
}

static int readable(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  const int n = poll(&p, 1, 0);
  CHECK(n >= 0);
  return n == 1 && (p.revents & POLLIN) != 0;
}

static void test_character_device(int fd) {
  struct stat status;
  CHECK(fstat(fd, &status) == 0 && S_ISCHR(status.st_mode));
  /* Whoever looks at it sees the same. */
  struct stat other;
  CHECK(stat(DEVICE_FILE, &other) == 0 && other.st_mode == status.st_mode);
  CHECK(other.st_rdev == status.st_rdev && major(other.st_rdev) == 10);
  CHECK(fstatat(fd, "", &other, AT_EMPTY_PATH) == 0 && other.st_mode == status.st_mode);
  CHECK(other.st_rdev == status.st_rdev);
  struct statx more;
  CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more) == 0);
  CHECK(more.stx_mode == status.st_mode);
  CHECK(makedev(more.stx_rdev_major, more.stx_rdev_minor) == status.st_rdev);
  CHECK(statx(AT_FDCWD, DEVICE_FILE, 0, STATX_BASIC_STATS, &more) == 0);
  CHECK(makedev(more.stx_rdev_major, more.stx_rdev_minor) == status.st_rdev);
  char text[16], expected[16];
  FILE* dev = fopen("/sys/class/misc/rdma_cm/dev", "re");
  CHECK(dev != NULL && fgets(text, sizeof text, dev) != NULL && fclose(dev) == 0);
  snprintf(expected, sizeof expected, "%u:%u\n", major(status.st_rdev), minor(status.st_rdev));
  CHECK(strcmp(text, expected) == 0);
}

static void test_malformed(int fd) {
  const struct rdma_ucm_cmd_hdr header = {RDMA_USER_CM_CMD_CREATE_ID, 0, 0};
  errno = 0;
  CHECK(write(fd, &header, sizeof header - 1) == -1 && errno == EINVAL); /* short header */
  errno = 0;
  CHECK(write(fd, (void*)4096, sizeof header) == -1 && errno == EFAULT);

  struct rdma_ucm_create_id_resp answer;
  struct rdma_ucm_create_id in = {.response = (uintptr_t)&answer, .ps = kTcp};
  CHECK(command(fd, 1000, &in, sizeof in, sizeof answer) == EINVAL);
  CHECK(command(fd, kWriteEvent + 1, &in, sizeof in, sizeof answer) == EINVAL);
  CHECK(command(fd, RDMA_USER_CM_CMD_GET_OPTION, &in, sizeof in, sizeof answer) == ENOSYS);
  CHECK(command(fd, RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof in - 1, sizeof answer) == EINVAL);
  CHECK(command(fd, RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof in, sizeof answer - 1) == ENOSPC);

  const struct {
    struct rdma_ucm_cmd_hdr header;
    struct rdma_ucm_create_id in;
  } claims = {{RDMA_USER_CM_CMD_CREATE_ID, sizeof in + 1, sizeof answer},
              in}; /* more than it writes */
  errno = 0;
  CHECK(write(fd, &claims, sizeof claims) == -1 && errno == EINVAL);

  in.response = 4096;
  CHECK(command(fd, RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof in, sizeof answer) == EFAULT);
  in.response = (uintptr_t)&answer;
  in.ps = 0x7777;
  CHECK(command(fd, RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof in, sizeof answer) == EINVAL);
}

static void test_ids(int fd) {
  CHECK(destroy_id(fd, 0x7fffff) == ENOENT);
  CHECK(resolve(fd, 0x7fffff) == ENOENT);
  const uint32_t id = create_id(fd, 1);
  const int other = open_channel(0);
  CHECK(destroy_id(other, id) == EINVAL); /* it is another channel's */
  CHECK(resolve(other, id) == EINVAL);
  const struct rdma_ucm_resolve_route early = {.id = id, .timeout_ms = 1000};
  CHECK(command(fd, RDMA_USER_CM_CMD_RESOLVE_ROUTE, &early, sizeof early, 0) == EINVAL);
  CHECK(destroy_id(fd, id) == 0);
  CHECK(destroy_id(fd, id) == ENOENT);
  CHECK(close(other) == 0);
}

static void test_events(void) {
  const int fd = open_channel(O_NONBLOCK);
  struct rdma_ucm_event_resp event;
  CHECK(!readable(fd) && get_event(fd, &event) == EAGAIN);
  const uint32_t id = create_id(fd, 42);
  CHECK(resolve(fd, id) == 0);
  CHECK(readable(fd));
  const struct rdma_ucm_get_event nowhere = {.response = 4096};
  CHECK(command(fd, RDMA_USER_CM_CMD_GET_EVENT, &nowhere, sizeof nowhere, sizeof event) == EFAULT);
  CHECK(command(fd, RDMA_USER_CM_CMD_GET_EVENT, &nowhere, sizeof nowhere, 8) == ENOSPC);
  CHECK(readable(fd)); /* nothing was lost */
  CHECK(get_event(fd, &event) == 0);
  CHECK(event.uid == 42 && event.id == id && event.event == 0 /* ADDR_RESOLVED */);
  CHECK(!readable(fd) && get_event(fd, &event) == EAGAIN);
  CHECK(close(fd) == 0);
}

/* The program sends itself an event. */
static void test_own_events(void) {
  const int fd = open_channel(O_NONBLOCK), other = open_channel(0);
  const uint32_t id = create_id(fd, 43);
  struct {
    uint32_t id, reserved, event, status;
    uint64_t argument;
    char room[300]; /* for other events than these */
  } in = {.id = id, .event = kUser, .status = 5, .argument = 0x0123456789abcdef};
  CHECK(command(fd, kWriteEvent, &in, 23, 0) == EINVAL);
  CHECK(command(other, kWriteEvent, &in, sizeof in, 0) == EINVAL);
  CHECK(command(fd, kWriteEvent, &in, sizeof in, 0) == 0 && readable(fd));
  struct rdma_ucm_event_resp event;
  CHECK(get_event(fd, &event) == 0 && !readable(fd));
  CHECK(event.uid == 43 && event.id == id && event.event == kUser && event.status == 5);
  CHECK(memcmp(&event.param, &in.argument, sizeof in.argument) == 0);
  in.event = kInternal;
  CHECK(command(fd, kWriteEvent, &in, sizeof in, 0) == 0 && get_event(fd, &event) == 0);
  in.event = kUser - 1; /* the kernel's to tell */
  CHECK(command(fd, kWriteEvent, &in, sizeof in, 0) == EINVAL);
  in.event = kUser;
  in.id = 0x7fffff;
  CHECK(command(fd, kWriteEvent, &in, sizeof in, 0) == ENOENT);
  CHECK(close(fd) == 0 && close(other) == 0);
}

/* RoCE has nobody to ask for services. */
static void test_services(int fd) {
  const uint32_t id = create_id(fd, 1);
  char in[88] = {0};
  memcpy(in, &id, sizeof id);
  CHECK(command(fd, kResolveService, in, sizeof in, 0) == EINVAL); /* not bound */
  struct rdma_ucm_bind_ip bind = {.id = id};
  struct sockaddr_in at = {.sin_family = AF_INET};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  memcpy(&bind.addr, &at, sizeof at);
  CHECK(command(fd, RDMA_USER_CM_CMD_BIND_IP, &bind, sizeof bind, 0) == 0);
  CHECK(command(fd, kResolveService, in, sizeof in, 0) == EOPNOTSUPP);
  CHECK(destroy_id(fd, id) == 0);
}

static void test_migrate(void) {
  const int from = open_channel(O_NONBLOCK), to = open_channel(O_NONBLOCK);
  const uint32_t id = create_id(from, 7);
  CHECK(resolve(from, id) == 0);
  struct rdma_ucm_migrate_resp answer;
  struct rdma_ucm_migrate_id in = {.response = (uintptr_t)&answer, .id = id, .fd = 0};
  CHECK(command(to, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof in, sizeof answer) == EINVAL);
  in.fd = (uint32_t)from;
  CHECK(command(to, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof in, sizeof answer) == 0);
  CHECK(answer.events_reported == 0);
  CHECK(!readable(from) && readable(to));
  struct rdma_ucm_event_resp event;
  CHECK(get_event(from, &event) == EAGAIN);
  CHECK(get_event(to, &event) == 0 && event.id == id && event.uid == 7);
  CHECK(destroy_id(from, id) == EINVAL && destroy_id(to, id) == 0);
  CHECK(close(from) == 0 && close(to) == 0);
}

/* The channel lives until its last descriptor is closed. */
static void test_descriptors(void) {
  const int fd = open_channel(O_NONBLOCK);
  const uint32_t id = create_id(fd, 1);
  const int copy = dup(fd);
  CHECK(copy >= 0);
  CHECK(close(fd) == 0);
  CHECK(resolve(copy, id) == 0 && readable(copy));
  const int again = fcntl(copy, F_DUPFD_CLOEXEC, 0), third = dup2(copy, 99);
  CHECK(again >= 0 && third == 99);
  struct rdma_ucm_event_resp event;
  CHECK(get_event(again, &event) == 0 && !readable(copy));
  CHECK(close(again) == 0);
  CHECK(destroy_id(third, id) == 0 && close(third) == 0);
  CHECK(close(copy) == 0);
  errno = 0;
  CHECK(write(copy, "12345678", 8) == -1 && errno == EBADF);
  const int plain = open("/dev/null", O_WRONLY); /* has the number now, and nothing else */
  CHECK(plain == fd || plain == copy);
  CHECK(write(plain, "12345678", 8) == 8);
  CHECK(close(plain) == 0);
}

/* A child has the descriptor, but no NIC behind it; the parent goes on. */
static void test_fork(void) {
  const int fd = open_channel(O_NONBLOCK);
  const uint32_t id = create_id(fd, 1);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(destroy_id(fd, id) == ENODEV);
    const int own = open_channel(O_NONBLOCK);
    CHECK(destroy_id(own, create_id(own, 2)) == 0);
    exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(resolve(fd, id) == 0 && readable(fd));
  CHECK(destroy_id(fd, id) == 0 && close(fd) == 0);
}

int main(void) {
  const int fd = open_channel(0);
  test_character_device(fd);
  test_malformed(fd);
  test_ids(fd);
  test_services(fd);
  CHECK(close(fd) == 0);
  test_events();
  test_own_events();
  test_migrate();
  test_descriptors();
  test_fork();
  return 0;
}
