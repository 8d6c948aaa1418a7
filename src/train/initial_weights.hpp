// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "hf/model_weights.hpp"
#include "rt/submitter.hpp"
#include "tensor/parameter_set.hpp"
#include "train/run_states.hpp"

namespace dos::train {

/// Of a subgroup.
using IsWanted = std::function<bool(Index subgroup)>;

/// Overwrites what lasts (tensor::ParameterSet) of the parameters in owned subgroups that are
/// wanted with a folder's weights, read piece by piece: a few MiB of memory beside it. Throws Error
/// naming file and tensor when a weight is not finite, or a file has become shorter; part of the
/// values is then overwritten. Pre: no task that uses the values is under way; StarPU's workers are
/// paused meanwhile.
void load_weights(
    const hf::ModelWeights& weights, const tensor::ParameterSet& parameters,
    const IsWanted& is_wanted = [](Index) { return true; });

/// load_weights() of all folders; what none of them has is initialised, by tasks, as of a new run.
/// `states`: where values live.
void load_or_initialise(std::span<const hf::ModelWeights> folders, rt::Submitter& submitter,
                        const tensor::ParameterSet& parameters, std::uint64_t seed,
                        const RunStates& states = {});

}  // namespace dos::train
