# Compiler settings and dependencies that every target shares.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# The archives end up in a library that is preloaded into strangers' programs: what isn't
# exported on purpose must not be seen.
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${VERBENA_OUTPUT_ROOT}/bin")
# Where `verbena` looks for the preload library in a build tree: ../lib/verbena beside bin/.
set(VERBENA_PRELOAD_DIRECTORY "${VERBENA_OUTPUT_ROOT}/lib/verbena")

set(VERBENA_WARNINGS -Wall -Wextra -Wconversion -Wshadow)
if(VERBENA_WERROR)
  list(APPEND VERBENA_WARNINGS -Werror)
endif()
add_compile_options(${VERBENA_WARNINGS})
# GCC 12 sees overlapping copies in "text" + std::string where there are none (its bug 105329).
add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# clang from 17 on takes the libstdc++ of GCC 12, which uses what it has itself deprecated, for ours.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>)
# The macros of verbs.h add flags of two enumerations, and clang from 19 on minds in C, too.
add_compile_options($<$<COMPILE_LANG_AND_ID:C,Clang>:-Wno-enum-enum-conversion>
                    $<$<COMPILE_LANG_AND_ID:C,Clang>:-Wno-unknown-warning-option>)
add_compile_definitions(VERBENA_VERSION="${PROJECT_VERSION}")
# Whoever debugs wants frame pointers; where speed counts they are 5 to 10 % of all instructions.
add_compile_options($<$<NOT:$<CONFIG:RelWithDebInfo,Release>>:-fno-omit-frame-pointer>)
add_link_options(-Wl,--as-needed)

if(VERBENA_SANITIZE)
  add_compile_options(-fsanitize=${VERBENA_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VERBENA_SANITIZE})
  # With sanitizers GCC 12 sees copies beyond a vector that has just grown (thread), and loops over
  # the first of many elements read the others (address).
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(IBVERBS REQUIRED IMPORTED_TARGET libibverbs)
