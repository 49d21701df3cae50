/* A number that was an event channel's, and is an ordinary file's now, however it came to that:
 * what is written to it goes to the file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../abi/abi.h"

static void check_plain(int fd, const char* how) {
  struct stat s;
  CHECK(fstat(fd, &s) == 0);
  char back[5] = "";
  if (!S_ISREG(s.st_mode) || write(fd, "word", 4) != 4 || pread(fd, back, 4, 0) != 4 ||
      strcmp(back, "word") != 0) {
    fprintf(stderr, "after %s: descriptor %d isn't the file that it should be\n", how, fd);
    exit(1);
  }
}

static int some_file(void) {
  char name[] = "/tmp/descriptor_reuse.XXXXXX";
  const int fd = mkstemp(name);
  CHECK(fd >= 0 && unlink(name) == 0);
  return fd;
}

/* As open() does: the lowest number that is free. */
static void file_at(int wanted, const char* how) {
  const int fd = some_file();
  if (fd != wanted) CHECK(dup3(fd, wanted, O_CLOEXEC) == wanted && close(fd) == 0);
  check_plain(wanted, how);
  CHECK(close(wanted) == 0);
}

static int channel_fd(void) {
  struct rdma_event_channel* channel = rdma_create_event_channel();
  CHECK(channel != NULL);
  const int fd = channel->fd;
  free(channel); /* as a program that goes on with the descriptor alone */
  return fd;
}

int main(void) {
  int fd = channel_fd();
  FILE* stream = fdopen(fd, "r+");
  CHECK(stream != NULL && fclose(stream) == 0);
  file_at(fd, "fclose()");

  fd = channel_fd();
  const int file = some_file();
  CHECK(dup2(file, fd) == fd && close(file) == 0);
  check_plain(fd, "dup2()");
  CHECK(close(fd) == 0);

  fd = channel_fd();
  CHECK(close_range((unsigned)fd, (unsigned)fd, 0) == 0);
  file_at(fd, "close_range()");

  fd = channel_fd(); /* and a new channel works */
  struct rdma_event_channel again = {.fd = fd};
  struct rdma_cm_id* id;
  CHECK(rdma_create_id(&again, &id, NULL, RDMA_PS_TCP) == 0 && rdma_destroy_id(id) == 0);
  printf("a channel's number is its own no longer than the channel has it\n");
  return 0;
}
