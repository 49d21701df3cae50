/* Runs a program whose sockets keep the default receive buffer: see receive_buffers.h.
 *
 *   default_buffers PROGRAM ARGUMENT…
 */
#include <stdio.h>
#include <unistd.h>

#include "receive_buffers.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: default_buffers PROGRAM ARGUMENT…\n");
    return 2;
  }
  if (!refuse_receive_buffers()) {
    perror("default_buffers: seccomp");
    return 1;
  }
  execvp(argv[1], argv + 1);
  perror(argv[1]);
  return 127;
}
