# SPDX-License-Identifier: Apache-2.0
# Headers that many targets of a kind read, read once: for builds from nothing. A file still includes what it uses, as
# checks.includes makes sure.
include_guard()

option(DOS_PRECOMPILE_HEADERS "Read the headers that most tests and programs include once: for builds from nothing" OFF)

# dos_add_precompiled(KIND LIBRARIES target... [OPTIONS option...] HEADERS header...)
# declares the headers of a kind of targets, which are all compiled with these options.
function(dos_add_precompiled kind)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES;OPTIONS;HEADERS")
  if(NOT DOS_PRECOMPILE_HEADERS)
    return()
  endif()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${kind}_headers.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Generated: precompiled headers belong to a target with a source.\n")
  add_library(dos_${kind}_headers OBJECT ${source})
  target_link_libraries(dos_${kind}_headers PRIVATE dos_options ${arg_LIBRARIES})
  target_compile_options(dos_${kind}_headers PRIVATE ${arg_OPTIONS})
  target_precompile_headers(dos_${kind}_headers PRIVATE ${arg_HEADERS})
endfunction()

# dos_use_precompiled(KIND target...)
function(dos_use_precompiled kind)
  if(TARGET dos_${kind}_headers)
    foreach(target IN LISTS ARGN)
      target_precompile_headers(${target} REUSE_FROM dos_${kind}_headers)
    endforeach()
  endif()
endfunction()
