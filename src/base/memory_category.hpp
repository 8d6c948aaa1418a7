// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "base/types.hpp"

namespace dos {

/// What memory is for: buffers are counted and traced, and memory is estimated, by these.
enum class MemoryCategory : std::uint8_t {
  // Of buffers.
  kParameters,
  kWorking,
  kGradients,
  kStates,
  kActivations,
  kWorkspace,
  kData,
  // Of estimates only. On a GPU:
  kWeights,               ///< parameters in the type that forward reads
  kGathered,              ///< weights of other ranks while they are computed with
  kReduced,               ///< gradients of other ranks on their way to them
  kLogits,                ///< and their gradients
  kReserve,               ///< what a plan leaves free for what it does not know
  kWorkSpaces,            ///< of kernels and StarPU: known where a program runs
  kResidentStates,        ///< that stay there between updates
  kUpdateWindow,          ///< streamed states at work, beyond the memory of dead activations
  kStatesWithParameters,  ///< states and the FP32 parameters that they belong to
  // In the host's memory:
  kOthersWorking,    ///< working parameters that other ranks own
  kOthersGradients,  ///< gradients that other ranks own
  kFrozen,           ///< FP32 values of parameters that are not trained
  kTokensAhead,      ///< of steps that are submitted before they run
  kRuntime,          ///< StarPU's tasks and handles
  kProgram,          ///< code and libraries
  kSecondBanks,      ///< of parameters and states, of updates that go ahead of the norm
  kCheckpoints,      ///< buffers that checkpoints are written and copied through
};

/// Those that a buffer may have.
inline constexpr std::array kBufferCategories{
    MemoryCategory::kParameters, MemoryCategory::kWorking,     MemoryCategory::kGradients,
    MemoryCategory::kStates,     MemoryCategory::kActivations, MemoryCategory::kWorkspace,
    MemoryCategory::kData};

/// The name in reports, traces and JSON.
const char* name_of(MemoryCategory category);

/// What a process takes of kProgram, beyond its buffers and their records once its workers run:
/// heaps, stacks, operands that BLAS packs, code. Measured on Debian 12 with two workers, against
/// control groups, from the start of the runtime on: 5 MiB (`tiny`) to 14 MiB (`gpt2-124m`) of heap
/// and 7 MiB of code, of which 1 to 5 MiB a worker. A third more is for what the kernel must hold
/// of files that are written.
Index program_bytes(Index workers);

}  // namespace dos
