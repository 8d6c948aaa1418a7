# SPDX-License-Identifier: Apache-2.0
# Compiler settings shared by every target.
include_guard()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
# Contracts stay checked in every build type: no -DNDEBUG.
# Line tables are what backtraces and profilers need; -g takes half as long again to compile.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g1")
# What Spack and distributions build.
set(CMAKE_CXX_FLAGS_RELEASE "-O3")
# Sanitizers look for faults, not for speed, and compile in a half to a quarter of the time like this; clang, whose -Og is
# its -O1, in a third.
if(DOS_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O0 -g1")
elseif(DOS_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-Og -g1")
endif()

# dos_optimise_always(target...): what computes for so long that its tests gain more than compiling costs, with
# sanitizers too.
function(dos_optimise_always)
  if(DOS_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    foreach(target IN LISTS ARGN)
      # Loops that are to be vectors stay loops there.
      target_compile_options(${target} PRIVATE -O1 -Wno-pass-failed)
      # Those of other options do not fit.
      set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
    endforeach()
  endif()
endfunction()

add_library(dos_options INTERFACE)
set(dos_not_cuda $<NOT:$<COMPILE_LANGUAGE:CUDA>>)
set(dos_cxx_flags -Wall -Wextra -Wconversion -Wshadow -fno-math-errno -fno-trapping-math
                  $<$<BOOL:${DOS_WERROR}>:-Werror>)
# Messages of broken contracts name files of the sources, not of the machine that has compiled them.
set(dos_file_names -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_compile_options(
  dos_options INTERFACE "$<${dos_not_cuda}:${dos_cxx_flags};${dos_file_names}>"
                        $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${dos_file_names}>
                        "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>"
                        $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${DOS_WERROR}>>:-Werror=all-warnings>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # fmt's inlined formatting code trips these two at -O3 (GCC PR 105329 and relatives).
  target_compile_options(dos_options
                         INTERFACE "$<${dos_not_cuda}:-Wno-restrict;-Wno-stringop-overflow>")
endif()
target_include_directories(dos_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
if(DOS_SANITIZE)
  target_compile_options(dos_options INTERFACE -fsanitize=${DOS_SANITIZE} -fno-omit-frame-pointer
                                               -fno-sanitize-recover=all)
  target_link_options(dos_options INTERFACE -fsanitize=${DOS_SANITIZE})
endif()
