// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "codelets/init/init_codelet.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::nn {

/// Submits the tasks that give every parameter in a subgroup that this rank owns its initial value,
/// and its working parameter.
/// Element i of a tensor depends only on (seed, tensor name, i): not on the workers, nor on how the
/// tensor is cut into subgroups.
void submit_initialisation(rt::Submitter& submitter, const tensor::ParameterSet& parameters,
                           std::uint64_t seed);

/// The same of the parameters that `wanted` accepts, without working parameters but of subgroups
/// that have nothing else: these are overwritten whole, and waited for, one after the other.
void submit_initial_values(rt::Submitter& submitter, const tensor::ParameterSet& parameters,
                           std::uint64_t seed,
                           const std::function<bool(const shape::ParameterSpec&)>& wanted);

/// Submits the tasks that round owned values to the working parameters, where those are others:
/// needed whenever the values did not come from an update.
void submit_working_parameters(rt::Submitter& submitter, const tensor::ParameterSet& parameters);

}  // namespace dos::nn
