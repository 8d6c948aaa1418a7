# SPDX-License-Identifier: Apache-2.0
# CUDA kernels are compiled wherever nvcc is, also when neither StarPU nor the machine can run them.
# DOS_CUDA: ON demands nvcc, OFF does without, AUTO takes it if it is there (not for sanitizers, which
# do not see device code). Sets DOS_HAS_CUDA to true or false, as C++ spells it.
include_guard()
include(CheckLanguage)

set(DOS_CUDA AUTO CACHE STRING "Compile the CUDA kernels: AUTO, ON or OFF")
set_property(CACHE DOS_CUDA PROPERTY STRINGS AUTO ON OFF)
option(DOS_CUDA_LINES "Line numbers in CUDA kernels, for profilers; names of files stay in installed programs" OFF)
set(DOS_HAS_CUDA false)
if(DOS_CUDA STREQUAL "AUTO" AND NOT DOS_SANITIZE)
  check_language(CUDA)
endif()
if(DOS_CUDA STREQUAL "AUTO" AND CMAKE_CUDA_COMPILER OR NOT DOS_CUDA MATCHES "^(AUTO|OFF)$")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # A100, RTX 40 and H100; the last one's PTX serves newer GPUs.
    set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90)
  endif()
  enable_language(CUDA)
  # StarPU's runtime library is the shared one, and a program should have one.
  set(CMAKE_CUDA_RUNTIME_LIBRARY $<IF:$<BOOL:${DOS_STARPU_HAS_CUDA}>,Shared,Static>)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  # CMake 3.25 does not know how nvcc is asked for C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  # They are inside the device code, where nothing strips them.
  set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO -O3)
  if(DOS_CUDA_LINES)
    string(APPEND CMAKE_CUDA_FLAGS_RELWITHDEBINFO " -lineinfo")
  endif()
  set(DOS_HAS_CUDA true)
endif()

# Whether kernels are compiled and StarPU has workers to run them on.
set(DOS_RUNS_CUDA false)
if(DOS_HAS_CUDA AND DOS_STARPU_HAS_CUDA)
  set(DOS_RUNS_CUDA true)
endif()
if(DOS_HAS_CUDA OR DOS_STARPU_HAS_CUDA)
  find_package(CUDAToolkit REQUIRED)
endif()

# DOS_CUDNN: ON demands the headers of cuDNN 9 and of its frontend (cudnn-frontend 1.13 or later), OFF does
# without, AUTO takes them if they are there. Programs load the library itself when it is chosen.
# DOS_CUDNN_FRONTEND: a folder with include/cudnn_frontend.h; DOS_CUDNN_ROOT: one with include/cudnn.h.
set(DOS_CUDNN AUTO CACHE STRING "Attention on GPUs by cuDNN: AUTO, ON or OFF")
set_property(CACHE DOS_CUDNN PROPERTY STRINGS AUTO ON OFF)
set(DOS_CUDNN_FRONTEND "" CACHE PATH "Where cudnn-frontend is, if not where compilers look")
set(DOS_CUDNN_ROOT "" CACHE PATH "Where cuDNN is, if not with CUDA")
set(DOS_HAS_CUDNN false)
if(DOS_HAS_CUDA AND NOT DOS_CUDNN MATCHES "^(FALSE|NO|OFF)$")
  find_path(DOS_CUDNN_INCLUDE cudnn.h HINTS ${DOS_CUDNN_ROOT} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_path(DOS_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${DOS_CUDNN_FRONTEND} PATH_SUFFIXES include)
  if(DOS_CUDNN_INCLUDE AND DOS_CUDNN_FRONTEND_INCLUDE)
    set(DOS_HAS_CUDNN true)
  endif()
endif()
if(DOS_CUDNN MATCHES "^(TRUE|YES|ON)$" AND NOT DOS_HAS_CUDNN)
  message(FATAL_ERROR "cuDNN's headers or its frontend's not found, or no nvcc: set DOS_CUDNN_ROOT and "
                      "DOS_CUDNN_FRONTEND (docs/install.md)")
endif()

# dos_cudnn_sources(TARGET PRESENT ABSENT) adds one of two sources to TARGET.
function(dos_cudnn_sources target present absent)
  if(NOT DOS_HAS_CUDNN)
    target_sources(${target} PRIVATE ${absent})
    return()
  endif()
  target_sources(${target} PRIVATE ${present})
  # The frontend's templates take a minute to compile, more with each optimisation, for calls beside which
  # they are nothing.
  set_source_files_properties(
    ${present}
    PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
               SKIP_PRECOMPILE_HEADERS ON
               COMPILE_DEFINITIONS NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
               COMPILE_OPTIONS "-O0;-isystem${DOS_CUDNN_FRONTEND_INCLUDE};-isystem${DOS_CUDNN_INCLUDE};-isystem${CUDAToolkit_INCLUDE_DIRS}")
endfunction()

# dos_cuda_sources(TARGET [EXACT] file...) adds CUDA sources to TARGET, and nothing without nvcc.
# EXACT contracts nothing: results equal those of the portable CPU and of the OpenCL kernels bit for bit.
function(dos_cuda_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "EXACT" "" "")
  if(NOT DOS_HAS_CUDA)
    return()
  endif()
  target_sources(${target} PRIVATE ${arg_UNPARSED_ARGUMENTS})
  if(arg_EXACT)
    set_source_files_properties(${arg_UNPARSED_ARGUMENTS} PROPERTIES COMPILE_OPTIONS "--fmad=false")
  endif()
endfunction()
