# SPDX-License-Identifier: Apache-2.0
# CPU kernels are compiled once per instruction set and chosen at run time, so a binary needs no
# -march=native and still uses the widest vectors of the machine it runs on.
include_guard()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(DOS_SIMD_ISAS kPortable kAvx2 kAvx512)
  set(DOS_SIMD_HAS_AVX2 true)
  set(DOS_SIMD_HAS_AVX512 true)
else()
  set(DOS_SIMD_ISAS kPortable)
  set(DOS_SIMD_HAS_AVX2 false)
  set(DOS_SIMD_HAS_AVX512 false)
endif()
set(DOS_SIMD_FLAGS_kPortable "")
set(DOS_SIMD_FLAGS_kAvx2 -march=x86-64-v3)
set(DOS_SIMD_FLAGS_kAvx512 -march=x86-64-v4 -mprefer-vector-width=512)

# dos_simd_sources(TARGET file...) adds each file to TARGET once per instruction set. The file sees
# DOS_ISA as the enumerator of dos::simd::Isa that it defines its kernels for.
function(dos_simd_sources target)
  foreach(isa IN LISTS DOS_SIMD_ISAS)
    add_library(${target}_${isa} OBJECT ${ARGN})
    target_link_libraries(${target}_${isa} PRIVATE dos_options dos_codelet_headers PkgConfig::OPENBLAS)
    target_compile_definitions(${target}_${isa} PRIVATE DOS_ISA=${isa})
    target_compile_options(${target}_${isa} PRIVATE ${DOS_SIMD_FLAGS_${isa}} -fopenmp-simd)
    # Each file has its kernels in an unnamed namespace, under the same names.
    set_target_properties(${target}_${isa} PROPERTIES UNITY_BUILD OFF)
    dos_optimise_always(${target}_${isa})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
endfunction()
