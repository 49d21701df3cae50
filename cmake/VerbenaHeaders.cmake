# verbena_check_headers(FOLDER…)
#
# The target verbena_headers compiles every header of these folders by itself (syntax only),
# so that a header that leans on its includer's includes is found. ctest runs it.
function(verbena_check_headers)
  set(headers "")
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}"
         "${CMAKE_SOURCE_DIR}/${folder}/*.h" "${CMAKE_SOURCE_DIR}/${folder}/*.hpp")
    list(APPEND headers ${found})
  endforeach()

  set(stamps "")
  foreach(header IN LISTS headers)
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
