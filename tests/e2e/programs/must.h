/* Ends the program, and says why, if something is not so. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                     \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #condition, strerror(errno)); \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)
