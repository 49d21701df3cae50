/* Functions that glibc has since 2.35, so that our binaries don't need it. Hidden: the program's
 * own calls reach glibc's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

int epoll_pwait2(int epoll, struct epoll_event* events, int max, const struct timespec* timeout,
                 const sigset_t* signals) {
  return (int)syscall(SYS_epoll_pwait2, epoll, events, max, timeout, signals,
                      sizeof(uint64_t)); /* of the kernel's sigset_t */
}

/* std::random_device asks it. */
uint32_t arc4random(void) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) abort(); /* never: it is short */
  return number;
}

struct search {
  uintptr_t address;
  struct dl_find_object* result;
};

static int is_it(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  const struct search* search = data;
  struct dl_find_object found = {.dlfo_flags = 0};
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* header = &object->dlpi_phdr[i];
    char* const start = (char*)object->dlpi_addr + header->p_vaddr;
    const uintptr_t begin = (uintptr_t)start;
    if (header->p_type == PT_GNU_EH_FRAME) found.dlfo_eh_frame = start;
    if (header->p_type != PT_LOAD || search->address < begin ||
        search->address - begin >= header->p_memsz) {
      continue;
    }
    found.dlfo_map_start = start;
    found.dlfo_map_end = start + header->p_memsz;
  }
  if (found.dlfo_map_start == NULL || found.dlfo_eh_frame == NULL) return 0;
  *search->result = found;
  return 1;
}

/* libgcc's unwinder asks it where the frames of an address are described. */
int _dl_find_object(void* address, struct dl_find_object* result) {
  struct search search = {(uintptr_t)address, result};
  return dl_iterate_phdr(is_it, &search) == 1 ? 0 : -1;
}
