// SPDX-License-Identifier: Apache-2.0
#include "nn/parameter_refs.hpp"

#include "base/error.hpp"

namespace dos::nn {

codelets::MatrixRef matrix_ref(const shape::PlacedParameter& parameter,
                               const tensor::SubgroupHandles& handles) {
  require(parameter.spec.is_matrix(), "matrix parameter");
  codelets::MatrixRef ref{.blocking = parameter.blocking, .blocks = {}};
  for (const shape::Piece& piece : shape::pieces_of(parameter))
    ref.blocks.push_back(&handles[piece.subgroup]);
  return ref;
}

codelets::SliceRef slice_ref(const shape::PlacedParameter& parameter,
                             const tensor::SubgroupHandles& handles) {
  require(!parameter.spec.is_matrix(), "vector parameter");
  return {.handle = &handles[parameter.first_subgroup], .offset = parameter.offset};
}

MatrixParameter::MatrixParameter(const tensor::ParameterSet& set, const std::string& name)
    : value(matrix_ref(set.layout().find(name), set.working())) {
  const shape::PlacedParameter& parameter = set.layout().find(name);
  if (parameter.spec.trained) gradient = matrix_ref(parameter, set.gradients());
}

VectorParameter::VectorParameter(const tensor::ParameterSet& set, const std::string& name)
    : value(slice_ref(set.layout().find(name), set.working())) {
  const shape::PlacedParameter& parameter = set.layout().find(name);
  if (parameter.spec.trained) gradient = slice_ref(parameter, set.gradients());
}

}  // namespace dos::nn
