/* Linked against, never loaded: this library's SONAME is the absolute path of the system's
 * libibverbs, so that whoever links it gets that path as a DT_NEEDED entry. */
typedef int verbena_real_stub_is_not_empty;
