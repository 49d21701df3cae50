# The target verbena_fmt: fmt inside whoever links it, hidden like the rest. The library that is
# preloaded into strangers' programs can't need their libfmt.so, and a tool that needs libfmt.so.9
# starts on Debian 12 alone. Header-only, as Debian has it besides, every source compiles all of
# fmt again (2.5 s each, two thirds of most).

if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 12)
  add_library(verbena_fmt STATIC "${CMAKE_SOURCE_DIR}/cmake/fmt_library.cc")
  target_include_directories(
    verbena_fmt SYSTEM PUBLIC $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
else() # fmt_library.cc is about versions 9 to 11
  add_library(verbena_fmt INTERFACE)
  target_link_libraries(verbena_fmt INTERFACE fmt::fmt-header-only)
endif()
