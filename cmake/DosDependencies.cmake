# SPDX-License-Identifier: Apache-2.0
# Every library the project links, as imported targets. A missing one names the package that has it.
include_guard()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# dos_require_pkg(NAME MODULES... HINT text [CONFIG package]): the first module found becomes PkgConfig::NAME. CONFIG names
# what CMake may have installed as package::package: of CMAKE_PREFIX_PATH it goes before the system's modules, of the
# system after them.
function(dos_require_pkg name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HINT;CONFIG" "MODULES")
  set(package ${arg_CONFIG}::${arg_CONFIG})
  if(arg_CONFIG)
    find_package(${arg_CONFIG} CONFIG QUIET NO_SYSTEM_ENVIRONMENT_PATH NO_CMAKE_SYSTEM_PATH)
  endif()
  if(NOT TARGET ${package})
    pkg_search_module(${name} IMPORTED_TARGET GLOBAL ${arg_MODULES})
    if(NOT ${name}_FOUND AND arg_CONFIG)
      find_package(${arg_CONFIG} CONFIG QUIET)
    endif()
  endif()
  if(TARGET ${package})
    add_library(PkgConfig::${name} ALIAS ${package})
  elseif(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} not found (pkg-config: ${arg_MODULES}). ${arg_HINT}")
  endif()
endfunction()

dos_require_pkg(STARPU MODULES starpu-1.4 starpu-1.3 HINT
                "Debian: libstarpu-dev. Clusters: Spack 'starpu', or set PKG_CONFIG_PATH.")
dos_require_pkg(HWLOC MODULES hwloc HINT "Debian: libhwloc-dev.")
dos_require_pkg(OPENBLAS MODULES openblas HINT "Debian: libopenblas-pthread-dev.")
dos_require_pkg(FMT MODULES fmt HINT "Debian: libfmt-dev.")
dos_require_pkg(SPDLOG MODULES spdlog HINT "Debian: libspdlog-dev.")
# Spack installs it by CMake, without a file for pkg-config.
dos_require_pkg(TOMLPLUSPLUS MODULES tomlplusplus CONFIG tomlplusplus HINT "Debian: libtomlplusplus-dev.")
dos_require_pkg(XXHASH MODULES libxxhash HINT "Debian: libxxhash-dev.")
dos_require_pkg(ISAL MODULES libisal HINT "Debian: libisal-dev.")
dos_require_pkg(PCRE2 MODULES libpcre2-8 HINT "Debian: libpcre2-dev.")
dos_require_pkg(UTF8PROC MODULES libutf8proc HINT "Debian: libutf8proc-dev.")
dos_require_pkg(SENTENCEPIECE MODULES sentencepiece HINT "Debian: libsentencepiece-dev.")

# Without it threads read and write files (src/storage).
pkg_search_module(URING IMPORTED_TARGET GLOBAL liburing)

# What this StarPU was built with: its workers need the same libraries here.
include(CheckCXXSymbolExists)
set(CMAKE_REQUIRED_INCLUDES ${STARPU_INCLUDE_DIRS})
check_cxx_symbol_exists(STARPU_USE_OPENCL starpu_config.h DOS_STARPU_HAS_OPENCL)
check_cxx_symbol_exists(STARPU_USE_CUDA starpu_config.h DOS_STARPU_HAS_CUDA)
check_cxx_symbol_exists(STARPU_SIMGRID starpu_config.h DOS_STARPU_HAS_SIMGRID)
unset(CMAKE_REQUIRED_INCLUDES)
if(DOS_REQUIRE_SIMGRID AND NOT DOS_STARPU_HAS_SIMGRID)
  message(FATAL_ERROR "StarPU ${STARPU_VERSION} (${STARPU_PREFIX}) was built without SimGrid: name one with it, "
                      "PKG_CONFIG_PATH=<prefix>/lib/pkgconfig (docs/performance/simulated-nodes.md)")
endif()
if(DOS_STARPU_HAS_OPENCL)
  dos_require_pkg(OPENCL MODULES OpenCL HINT "Debian: ocl-icd-opencl-dev.")
endif()

# DOS_ONEDNN: ON demands it, OFF does without, AUTO takes it if it is there. Without it products of BF16
# matrices on the CPU take FP32's time.
set(DOS_ONEDNN AUTO CACHE STRING "BF16 products by oneDNN: AUTO, ON or OFF")
set_property(CACHE DOS_ONEDNN PROPERTY STRINGS AUTO ON OFF)
if(NOT DOS_ONEDNN MATCHES "^(FALSE|NO|OFF)$")
  find_package(dnnl CONFIG QUIET)
endif()
if(DOS_ONEDNN MATCHES "^(TRUE|YES|ON)$" AND NOT dnnl_FOUND)
  message(FATAL_ERROR "oneDNN not found. Debian: libdnnl-dev. Clusters: Spack 'onednn', or set dnnl_DIR.")
endif()
add_library(dos_onednn INTERFACE)
if(dnnl_FOUND)
  set(DOS_ONEDNN_SOURCE onednn.cpp)
  # Debian builds it with GCC's OpenMP, whose threads codelets/matrix/onednn.cpp keeps to one. clang finds
  # -lgomp where it finds GCC's other libraries.
  target_link_libraries(dos_onednn INTERFACE DNNL::dnnl gomp)
else()
  set(DOS_ONEDNN_SOURCE onednn_absent.cpp)
  set(dnnl_VERSION "(none: BF16 products in FP32)")
endif()

find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# DOS_MPI: ON demands MPICH, OFF does without (one rank), AUTO takes it if it is there. Sets DOS_HAS_MPI.
# MPICH by name: Debian's StarPU pulls in Open MPI, and the two must never meet in one program.
set(DOS_MPI AUTO CACHE STRING "Many ranks through MPICH: AUTO, ON or OFF")
set_property(CACHE DOS_MPI PROPERTY STRINGS AUTO ON OFF)
set(DOS_HAS_MPI false)
if(NOT DOS_MPI MATCHES "^(FALSE|NO|OFF)$")
  pkg_search_module(MPICH IMPORTED_TARGET GLOBAL mpich)
  if(MPICH_FOUND)
    set(DOS_HAS_MPI true)
  elseif(NOT DOS_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "MPICH not found (pkg-config: mpich). Debian: libmpich-dev.")
  endif()
endif()
if(DOS_HAS_MPI)
  find_program(DOS_MPIEXEC NAMES mpiexec.mpich mpiexec.hydra mpiexec)
  # Since MPICH 3.4; not every relative has it.
  include(CheckCXXSymbolExists)
  set(CMAKE_REQUIRED_LIBRARIES PkgConfig::MPICH)
  check_cxx_symbol_exists(MPIX_GPU_query_support mpi.h DOS_MPI_KNOWS_GPUS)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()

# Debian's interpreter first: it is the one that sees Debian's python3-matplotlib.
find_program(DOS_PYTHON3 NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(DOS_PYTHON3 NAMES python3)

add_library(dos_starpu INTERFACE)
target_include_directories(dos_starpu SYSTEM INTERFACE ${STARPU_INCLUDE_DIRS})
target_link_libraries(dos_starpu INTERFACE PkgConfig::STARPU)

if(DOS_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()

set(mpi_shown ${MPICH_VERSION})
if(NOT DOS_HAS_MPI)
  set(mpi_shown "(none: one rank)")
endif()
message(STATUS "StarPU ${STARPU_VERSION}, hwloc ${HWLOC_VERSION}, OpenBLAS ${OPENBLAS_VERSION}, "
               "oneDNN ${dnnl_VERSION}, MPICH ${mpi_shown}")
