# SPDX-License-Identifier: Apache-2.0
# cmake -D SOURCE_DIR=<repository> -D WORK_DIR=<folder of its own> -P module_graph.cmake
# Configures small projects that use the repository's module rules: the good ones must configure,
# the bad ones must stop with a message that names the fault.
cmake_minimum_required(VERSION 3.25)

# graph_project(NAME [DEPS module...]) makes a project with files of several modules; it declares the module
# sched with DEPS.
function(graph_project name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPS")
  set(root ${WORK_DIR}/${name})
  file(REMOVE_RECURSE ${root})
  file(WRITE ${root}/CMakeLists.txt
       "cmake_minimum_required(VERSION 3.25)\n"
       "project(${name} LANGUAGES CXX)\n"
       "list(APPEND CMAKE_MODULE_PATH ${SOURCE_DIR}/cmake)\n"
       "include(DosModules)\n"
       "add_library(dos_options INTERFACE)\n"
       "dos_check_module_graph()\n"
       "dos_add_module(sched SOURCES src/sched/plan.cpp DEPS ${arg_DEPS})\n"
       "foreach(dep ${arg_DEPS})\n  add_library(dos_\${dep} INTERFACE)\nendforeach()\n")
  file(WRITE ${root}/src/sched/plan.cpp "#include \"sched/plan.hpp\"\n#include <vector>\n")
  file(WRITE ${root}/src/sched/plan.hpp "#include \"base/types.hpp\"\n#include \"perfmodels/rates.hpp\"\n")
  file(WRITE ${root}/src/rt/session.cpp "#include <starpu.h>\n#include \"platform/topology.hpp\"\n")
  file(WRITE ${root}/src/platform/mpi.cpp "#include <mpi.h>\n#include <hwloc.h>\n")
  file(WRITE ${root}/codelets/gelu/gelu_cuda.cu "#include <cuda_runtime.h>\n")
endfunction()

function(configure out_result out_text name)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK_DIR}/${name} -B ${WORK_DIR}/${name}/build
                  RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  # CMake wraps the lines of its messages.
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  set(${out_result} ${result} PARENT_SCOPE)
  set(${out_text} "${text}" PARENT_SCOPE)
endfunction()

function(expect_configures name)
  configure(result text ${name})
  if(NOT result EQUAL 0)
    message(SEND_ERROR "${name}: should configure, but: ${text}")
  endif()
endfunction()

function(expect_stops name message)
  configure(result text ${name})
  string(FIND "${text}" "${message}" found)
  if(result EQUAL 0)
    message(SEND_ERROR "${name}: configures, though it should stop with '${message}'")
  elseif(found EQUAL -1)
    message(SEND_ERROR "${name}: should stop with '${message}', but says: ${text}")
  endif()
endfunction()

# expect_include_stops(NAME FILE LINE MESSAGE): the good project with LINE added to FILE stops.
function(expect_include_stops name file line message)
  graph_project(${name} DEPS base)
  file(APPEND ${WORK_DIR}/${name}/${file} "${line}\n")
  expect_stops(${name} "${message}")
endfunction()

graph_project(allowed DEPS base)
expect_configures(allowed)

graph_project(forbidden_deps DEPS base rt)
expect_stops(forbidden_deps "module 'sched' may not use 'rt'")

expect_include_stops(forbidden_include src/sched/plan.hpp "#include \"rt/session.hpp\""
                     "src/sched/plan.hpp: 'sched' may not include 'rt'")
expect_include_stops(forbidden_include_of_everything src/base/types.hpp "#  include \"train/trainer.hpp\""
                     "src/base/types.hpp: 'base' may not include 'train'")
expect_include_stops(forbidden_starpu src/sched/plan.cpp "#include <starpu.h>"
                     "src/sched/plan.cpp: <starpu.h> belongs to rt")
expect_include_stops(forbidden_starpu_part src/sched/plan.cpp "#include <starpu_scheduler.h>"
                     "src/sched/plan.cpp: <starpu_scheduler.h> belongs to rt")
expect_include_stops(forbidden_starpu_in_kernel codelets/gelu/gelu_cpu.cpp "#include <starpu.h>"
                     "codelets/gelu/gelu_cpu.cpp: <starpu.h> belongs to rt")
expect_include_stops(forbidden_starpu_in_description codelets/gelu/gelu_codelet.hpp "#include <starpu.h>"
                     "codelets/gelu/gelu_codelet.hpp: <starpu.h> belongs to rt")
expect_include_stops(forbidden_cuda codelets/gelu/gelu_codelet.hpp "#include <cuda_runtime.h>"
                     "codelets/gelu/gelu_codelet.hpp: <cuda_runtime.h> belongs to platform")
expect_include_stops(forbidden_mpi src/rt/session.cpp "#include <mpi.h>"
                     "src/rt/session.cpp: <mpi.h> belongs to platform")
