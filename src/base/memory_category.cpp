// SPDX-License-Identifier: Apache-2.0
#include "base/memory_category.hpp"

namespace dos {

const char* name_of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kParameters:
      return "parameters";
    case MemoryCategory::kWorking:
      return "working parameters";
    case MemoryCategory::kGradients:
      return "gradients";
    case MemoryCategory::kStates:
      return "optimizer states";
    case MemoryCategory::kActivations:
      return "activations";
    case MemoryCategory::kWorkspace:
      return "workspace";
    case MemoryCategory::kData:
      return "data";
    case MemoryCategory::kWeights:
      return "weights";
    case MemoryCategory::kGathered:
      return "gathered weights";
    case MemoryCategory::kReduced:
      return "gradients on their way";
    case MemoryCategory::kLogits:
      return "logits";
    case MemoryCategory::kReserve:
      return "reserve";
    case MemoryCategory::kWorkSpaces:
      return "work spaces";
    case MemoryCategory::kResidentStates:
      return "resident states";
    case MemoryCategory::kUpdateWindow:
      return "update window beyond activations";
    case MemoryCategory::kStatesWithParameters:
      return "states";
    case MemoryCategory::kOthersWorking:
      return "others' working parameters";
    case MemoryCategory::kFrozen:
      return "frozen parameters";
    case MemoryCategory::kOthersGradients:
      return "others' gradients";
    case MemoryCategory::kTokensAhead:
      return "tokens ahead";
    case MemoryCategory::kRuntime:
      return "runtime";
    case MemoryCategory::kProgram:
      return "program";
    case MemoryCategory::kSecondBanks:
      return "second banks";
    case MemoryCategory::kCheckpoints:
      return "checkpoint buffers";
  }
  return "?";
}

Index program_bytes(Index workers) {
  constexpr Index kProcess = Index{24} << 20;
  constexpr Index kWorker = Index{8} << 20;
  return kProcess + workers * kWorker;
}

}  // namespace dos
