# verbena_check_headers(FOLDER…)
#
# Every header of these folders compiles alone, so that one that leans on its includer's includes is
# found. Where NAME.cc includes NAME.h before anything else, a build shows it that compiles each source
# by itself and without precompiled headers, as clang-tidy does in `make lint`. The target
# verbena_headers compiles the others (syntax only), and ctest runs it. verbena_all_headers, for
# `make test-all`, compiles every header.

# What the source file beside this header includes first; empty: there is none.
function(verbena_first_include header result)
  string(REGEX REPLACE "\\.h(pp)?$" ".cc" source "${CMAKE_SOURCE_DIR}/${header}")
  set(first "")
  if(EXISTS "${source}")
    file(STRINGS "${source}" line LIMIT_COUNT 1 REGEX "^#include")
    string(REGEX REPLACE "^#include \"(.*)\"$" "\\1" first "${line}")
  endif()
  set(${result} "${first}" PARENT_SCOPE)
endfunction()

function(verbena_check_headers)
  set(headers "")
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}"
         "${CMAKE_SOURCE_DIR}/${folder}/*.h" "${CMAKE_SOURCE_DIR}/${folder}/*.hpp")
    list(APPEND headers ${found})
  endforeach()

  set(stamps "")
  set(shown_by_a_source "")
  foreach(header IN LISTS headers)
    verbena_first_include("${header}" first)
    string(FIND "/${header}" "/${first}" at REVERSE)
    set(stamp "${CMAKE_BINARY_DIR}/headers/${header}.ok")
    get_filename_component(folder "${stamp}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    add_custom_command(
      OUTPUT "${stamp}"
      COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only ${VERBENA_WARNINGS}
              -DVERBENA_VERSION="${PROJECT_VERSION}"
              -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR}
              -MMD -MT "${stamp}" -MF "${stamp}.d"
              -include "${CMAKE_SOURCE_DIR}/${header}" -x c++ /dev/null
      COMMAND ${CMAKE_COMMAND} -E touch "${stamp}"
      DEPENDS "${CMAKE_SOURCE_DIR}/${header}"
      DEPFILE "${stamp}.d"
      COMMENT "Header alone: ${header}"
      VERBATIM)
    if(first AND NOT at EQUAL -1)
      list(APPEND shown_by_a_source "${stamp}")
    else()
      list(APPEND stamps "${stamp}")
    endif()
  endforeach()
  add_custom_target(verbena_headers DEPENDS ${stamps})
  add_custom_target(verbena_all_headers DEPENDS ${stamps} ${shown_by_a_source})
endfunction()
