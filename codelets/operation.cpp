// SPDX-License-Identifier: Apache-2.0
#include "codelets/operation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dos::codelets::detail {

std::string symbol_of(const Symbol& symbol, std::span<const DType> types) {
  std::string text = fmt::format("dos.{}", symbol.name);
  for (const DType type : types) text += fmt::format(".{}", name_of(type));
  return text + fmt::format(".v{}", symbol.version);
}

void refuse(const Symbol& symbol, std::initializer_list<buffers::Handles> members) {
  std::vector<const char*> types;
  for (const buffers::Handles handles : members)
    for (const rt::Handle* handle : handles) types.push_back(name_of(handle->type()));
  throw ContractViolation(
      fmt::format("{} takes no buffers of types {}", symbol.name, fmt::join(types, ", ")));
}

CudaContext cuda_context(rt::CudaStream stream) {
  const rt::CudaWorkspace own = rt::cuda_workspace();
  return {stream, own.memory, own.bytes, own.blas, own.kept};
}

void expect_started(const char* fault) {
  expect(fault == nullptr, "CUDA: {}", fault == nullptr ? "" : fault);
}

}  // namespace dos::codelets::detail
