/* Programs that don't link libibverbs but open it by name, with and without a symbol version
 * (NCCL, brpc, fio): they must get our functions, and the system's for the rest. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                               \
    }                                                                         \
  } while (0)

static int finds_our_device(void* library) {
  void** (*list)(int*) = (void** (*)(int*))dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1");
  const char* (*name)(void*) =
      (const char* (*)(void*))dlvsym(library, "ibv_get_device_name", "IBVERBS_1.1");
  CHECK(list != NULL && name != NULL);
  CHECK((void*)list == dlsym(library, "ibv_get_device_list"));
  CHECK(dlvsym(library, "ibv_event_type_str", "IBVERBS_1.1") != NULL); /* not ours */
  CHECK(dlvsym(library, "ibv_cmd_create_qp", "IBVERBS_PRIVATE_34") != NULL ||
        dlsym(library, "ibv_cmd_create_qp") != NULL);

  int count = 0, ours = 0;
  void** devices = list(&count);
  CHECK(devices != NULL);
  for (int i = 0; i < count; ++i) ours += strcmp(name(devices[i]), "vb_lo") == 0;
  CHECK(ours == 1);
  free(devices);
  return 0;
}

int main(void) {
  /* The second is a file of the system's where libibverbs-dev is installed. */
  static const char* const names[] = {"libibverbs.so.1", "libibverbs.so"};
  static const int flags[] = {RTLD_NOW | RTLD_LOCAL, RTLD_LAZY | RTLD_GLOBAL,
                              RTLD_LAZY | RTLD_NOLOAD};
  for (size_t n = 0; n < sizeof names / sizeof *names; ++n) {
    for (size_t f = 0; f < sizeof flags / sizeof *flags; ++f) {
      void* library = dlopen(names[n], flags[f]);
      if (library == NULL || finds_our_device(library) != 0) {
        return fprintf(stderr, "%s with flags %#x is not ours\n", names[n], flags[f]), 1;
      }
      CHECK(dlclose(library) == 0);
    }
  }
  return 0;
}
