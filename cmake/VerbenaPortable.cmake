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

# verbena_state_terms(PACKAGE…): the terms that parts of ours come under, as Debian's packages state
# them.
function(verbena_state_terms)
  foreach(package IN LISTS ARGN)
    if(EXISTS "/usr/share/doc/${package}/copyright")
      install(FILES "/usr/share/doc/${package}/copyright"
              DESTINATION "${CMAKE_INSTALL_DOCDIR}/copyright" RENAME "${package}")
    endif()
  endforeach()
endfunction()

# verbena_bring_along(FOLDER SONAME…): copies this system's libraries to lib/verbena/FOLDER.
function(verbena_bring_along folder)
  foreach(soname IN LISTS ARGN)
    unset(file)
    find_library(file NAMES "${soname}" REQUIRED NO_CACHE)
    file(REAL_PATH "${file}" file)
    configure_file("${file}" "${VERBENA_PRELOAD_DIRECTORY}/${folder}/${soname}" COPYONLY)
    install(PROGRAMS "${file}" DESTINATION "lib/verbena/${folder}" RENAME "${soname}")
  endforeach()
endfunction()

if(VERBENA_PORTABLE)
  verbena_state_terms(libibverbs1 librdmacm1 libnl-3-200 libnl-route-3-200 libisal2 libfmt-dev
                      libcli11-dev nlohmann-json3-dev libssl-dev libxxhash-dev
                      libgcc-s1)
endif()
