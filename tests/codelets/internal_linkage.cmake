# SPDX-License-Identifier: Apache-2.0
# cmake -DNM=... -DOBJECTS=a.o,b.o -P internal_linkage.cmake: fails when one of the objects offers a
# weak symbol. The linker keeps one copy of a weak function for the whole program, perhaps the one
# with instructions that this processor does not have. Instances of a kernel's template are weak too,
# but their names hold the instruction set, so there is one copy of each.
string(REPLACE "," ";" objects "${OBJECTS}")
if(NOT objects)
  message(FATAL_ERROR "no objects given")
endif()
execute_process(COMMAND ${NM} --print-file-name --demangle ${objects} OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" weak "${symbols}")
list(FILTER weak EXCLUDE REGEX "_cpu<\\(dos::simd::Isa\\)[0-9][,>]")
if(weak)
  list(JOIN weak "\n  " text)
  message(FATAL_ERROR "weak symbols in code compiled per instruction set:\n  ${text}")
endif()
