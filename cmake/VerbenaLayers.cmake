# verbena_layer(NAME [USES LAYER…] [LINKS TARGET…])
#
# The static library verbena_NAME from the sources below src/NAME. A layer without sources (header-only,
# or not there yet) is an interface library of the same name, so that users need not care.
function(verbena_layer name)
  cmake_parse_arguments(arg "" "" "USES;LINKS" ${ARGN})
  set(target verbena_${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${name}/*.cc")
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} "${CMAKE_SOURCE_DIR}/src")
  foreach(layer IN LISTS arg_USES)
    target_link_libraries(${target} ${scope} verbena_${layer})
  endforeach()
  target_link_libraries(${target} ${scope} ${arg_LINKS})

  # Headers were three quarters of the work of a source file. The first layer precompiles the
  # system's, and the others share that.
  if(VERBENA_PRECOMPILE AND sources AND name STREQUAL "base")
    target_precompile_headers(
      ${target} PRIVATE <algorithm> <array> <atomic> <chrono> <deque> <functional> <map> <memory>
      <mutex> <optional> <span> <string> <unordered_map> <unordered_set> <variant> <vector>
      <fmt/format.h>)
  elseif(VERBENA_PRECOMPILE AND sources)
    target_precompile_headers(${target} REUSE_FROM verbena_base)
  endif()
endfunction()
