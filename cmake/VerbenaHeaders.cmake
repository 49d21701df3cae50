# verbena_check_headers(FOLDER…)
#
# Every header of these folders compiles alone, so that one that leans on its includer's includes is
# found. Where NAME.cc includes NAME.h before anything else, the build itself shows it, unless sources
# are compiled together; the target verbena_headers compiles the others by themselves (syntax only).
# ctest runs it.

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
  foreach(header IN LISTS headers)
    verbena_first_include("${header}" first)
    string(FIND "/${header}" "/${first}" at REVERSE)
    if(first AND NOT at EQUAL -1 AND NOT CMAKE_UNITY_BUILD)
      continue()
    endif()
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
    list(APPEND stamps "${stamp}")
  endforeach()
  add_custom_target(verbena_headers DEPENDS ${stamps})
endfunction()
