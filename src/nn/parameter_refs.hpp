// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/matrix/refs.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::nn {

/// A matrix parameter among the given handles (values, gradients or a moment).
codelets::MatrixRef matrix_ref(const shape::PlacedParameter& parameter,
                               const tensor::SubgroupHandles& handles);

/// A vector parameter among the given handles.
codelets::SliceRef slice_ref(const shape::PlacedParameter& parameter,
                             const tensor::SubgroupHandles& handles);

/// A matrix parameter as tasks see it.
struct MatrixParameter {
  MatrixParameter(const tensor::ParameterSet& set, const std::string& name);
  codelets::MatrixRef value;
  codelets::MatrixRef gradient;
};

/// A vector parameter as tasks see it.
struct VectorParameter {
  VectorParameter(const tensor::ParameterSet& set, const std::string& name);
  codelets::SliceRef value;
  codelets::SliceRef gradient;
};

}  // namespace dos::nn
