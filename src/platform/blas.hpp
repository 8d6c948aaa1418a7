// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/types.hpp"

namespace dos::platform::blas {

/// Version and build of the BLAS library, "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
std::string description();

/// The kernel family that OpenBLAS runs, e.g. "SkylakeX".
std::string core_type();

/// Address space that OpenBLAS maps for each thread that calls it; a small part of it is used.
inline constexpr Index kThreadMapping = Index{132} << 20;

/// One BLAS thread for each calling thread: StarPU's workers are the parallelism.
void use_one_thread();

/// What a processor can, of what kernel families differ in.
struct Instructions {
  bool avx2 = false;    ///< and FMA
  bool avx512 = false;  ///< F, VL, BW and DQ
};

/// The family to take instead of one that OpenBLAS has chosen; "" where that uses the instructions.
std::string_view better_core_type(std::string_view chosen, const Instructions& instructions);

/// OpenBLAS 0.3.21 does not know newer processors: it takes AVX2 kernels ("Haswell", "Zen") on
/// AMD's Zen 4 and 5, and SSE3 kernels ("Prescott") on Intel's Emerald Rapids, and loses much of
/// its speed. It chooses when the library is loaded, so the only cure is to start the program again
/// with OPENBLAS_CORETYPE set: this does so, once, and only when the choice is bad and the variable
/// is not set. Call first thing in main, before MPI, with main's argv. Returns when there is
/// nothing to mend or when the restart fails.
void restart_with_better_kernels(char** argv);

}  // namespace dos::platform::blas
