// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hf/model_weights.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::train {

/// Overwrites the values of the parameters in owned subgroups with a folder's weights, read piece
/// by piece: a few MiB of memory beside the values. Throws Error naming file and tensor when a
/// weight is not finite, or a file has become shorter; part of the values is then overwritten.
void load_weights(const hf::ModelWeights& weights, const tensor::ParameterSet& parameters);

}  // namespace dos::train
