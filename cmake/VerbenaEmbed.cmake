# Puts text files into a program.
#
# verbena_embed(TARGET PLACE FUNCTION FILE…): TARGET gets a function of FUNCTION's name in namespace
# verbena::PLACE, declared in tools/PLACE/page_parts.h, that returns the files one behind the other
# and the hash of that.
#
# This file is also the script that does it at build time:
#   cmake -D OUTPUT=… -D PLACE=… -D FUNCTION=… -D FILES=a,b -P VerbenaEmbed.cmake

if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(VERBENA_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")
  function(verbena_embed target place function)
    set(output "${CMAKE_CURRENT_BINARY_DIR}/${place}_${function}.cc")
    string(REPLACE ";" "," files "${ARGN}")
    add_custom_command(
      OUTPUT "${output}"
      COMMAND "${CMAKE_COMMAND}" -D "OUTPUT=${output}" -D "PLACE=${place}" -D
              "FUNCTION=${function}" -D "FILES=${files}" -P "${VERBENA_EMBED_SCRIPT}"
      DEPENDS ${ARGN} "${VERBENA_EMBED_SCRIPT}"
      VERBATIM)
    target_sources(${target} PRIVATE "${output}")
  endfunction()
  return()
endif()

cmake_policy(SET CMP0054 NEW)

# Hexadecimal digits to base64: six of them are four characters.
function(base64_of hex result)
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(LENGTH "${hex}" length)
  math(EXPR missing "(6 - ${length} % 6) % 6")
  string(REPEAT "0" ${missing} zeros)
  string(APPEND hex "${zeros}")
  math(EXPR last "${length} + ${missing} - 6")
  set(text "")
  foreach(at RANGE 0 ${last} 6)
    string(SUBSTRING "${hex}" ${at} 6 group)
    foreach(shift IN ITEMS 18 12 6 0)
      math(EXPR digit "(0x${group} >> ${shift}) & 63")
      string(SUBSTRING "${digits}" ${digit} 1 character)
      string(APPEND text "${character}")
    endforeach()
  endforeach()
  # Two digits are a byte; a byte that isn't there leaves a "=" behind.
  math(EXPR padding "${missing} / 2")
  string(LENGTH "${text}" length)
  math(EXPR kept "${length} - ${padding}")
  string(SUBSTRING "${text}" 0 ${kept} text)
  string(REPEAT "=" ${padding} signs)
  set(${result} "${text}${signs}" PARENT_SCOPE)
endfunction()

string(REPLACE "," ";" FILES "${FILES}")
set(joined "${OUTPUT}.txt")
execute_process(COMMAND "${CMAKE_COMMAND}" -E cat ${FILES} OUTPUT_FILE "${joined}"
                RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "VerbenaEmbed: can't read ${FILES}")
endif()
file(SHA256 "${joined}" hash)
base64_of("${hash}" hash)
file(READ "${joined}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include \"tools/${PLACE}/page_parts.h\"

namespace verbena::${PLACE} {

PagePart ${FUNCTION}() {
  static constexpr unsigned char kBytes[] = {
${bytes}};
  return {{reinterpret_cast<const char*>(kBytes), sizeof kBytes}, \"${hash}\"};
}

}  // namespace verbena::${PLACE}
")
