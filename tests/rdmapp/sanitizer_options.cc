// The preload library, built with the same sanitizer, comes before the sanitizer's own: for our
// purposes that is as well.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
const char* __asan_default_options() { return "verify_asan_link_order=0"; }
