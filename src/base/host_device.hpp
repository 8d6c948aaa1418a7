// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Before a function that CPU and CUDA kernels share: it is compiled for both and inlined always,
/// as the CPU kernels are compiled for several instruction sets and must share no copy of it. It
/// and the one below are the only macros of the product.
#ifdef __CUDACC__
#define DOS_HD __host__ __device__ __forceinline__
#else
#define DOS_HD [[gnu::always_inline]] inline
#endif

/// Before a function that CUDA kernels call and that tests, compiled without CUDA, run on the host.
#ifdef __CUDACC__
#define DOS_DEVICE __device__ __forceinline__
#else
#define DOS_DEVICE inline
#endif
