// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "codelets/matrix/refs.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::nn {

/// A matrix parameter among the given handles (values, gradients or a moment).
codelets::MatrixRef matrix_ref(const shape::PlacedParameter& parameter,
                               const tensor::SubgroupHandles& handles);

/// A vector parameter among the given handles.
codelets::SliceRef slice_ref(const shape::PlacedParameter& parameter,
                             const tensor::SubgroupHandles& handles);

/// A matrix parameter as tasks see it; without gradient it is frozen.
struct MatrixParameter {
  MatrixParameter(const tensor::ParameterSet& set, const std::string& name);
  codelets::MatrixRef value;
  std::optional<codelets::MatrixRef> gradient;
};

/// A vector parameter as tasks see it; without gradient it is frozen.
struct VectorParameter {
  VectorParameter(const tensor::ParameterSet& set, const std::string& name);
  codelets::SliceRef value;
  std::optional<codelets::SliceRef> gradient;
};

}  // namespace dos::nn
