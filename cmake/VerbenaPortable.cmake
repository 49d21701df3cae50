# VERBENA_PORTABLE: binaries that start on every Linux with VERBENA_PORTABLE_GLIBC or later, whatever
# else is installed there. Programs and libraries link the target verbena_portable.

set(VERBENA_PORTABLE_GLIBC 2.34)

if(VERBENA_PORTABLE)
  add_library(verbena_portable OBJECT "${CMAKE_SOURCE_DIR}/cmake/newer_glibc.c")
  target_link_options(verbena_portable INTERFACE -static-libstdc++ -static-libgcc
                      "LINKER:--gc-sections")
  set(OPENSSL_USE_STATIC_LIBS ON)
else()
  add_library(verbena_portable INTERFACE)
endif()
