// As much of libcuda.so.1 as `verbena doctor` calls: ONE_GPU, FAILS or CRASHES.

#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned flags) {
  (void)flags;
#ifdef CRASHES
  abort();
#endif
#ifdef FAILS
  return 999;
#endif
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}

int cuDeviceGetName(char* name, int length, int device) {
  (void)device;
  snprintf(name, (size_t)length, "Made Up 100");
  return 0;
}
