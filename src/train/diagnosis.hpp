// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ranks/exchange.hpp"
#include "rt/submitter.hpp"
#include "tensor/parameter_set.hpp"
#include "train/run_states.hpp"

namespace dos::train {

/// Finds where values stop being finite. Looks at every parameter, then runs `replay` (which
/// submits a forward and backward pass) one task at a time from zero gradients and looks at what
/// each task wrote. Returns e.g. "lane0.activations1.hidden, written by dos.linear_forward.f32.v1
/// (blocks.1.mlp.up)", or nothing when all is finite. With an exchange: collective; the same on all
/// ranks, with the rank that found it: the first of those that found a task all of whose inputs
/// were finite, so that none is named that was only told. Slow: for the moment after a divergence.
/// Pre: no task is running; replay() submits the same tasks and messages in the same order on all
/// ranks. `states`: where parameters live. Throws Error when a rank is lost.
std::optional<std::string> find_first_bad_tensor(rt::Submitter& submitter,
                                                 const tensor::ParameterSet& parameters,
                                                 const std::function<void()>& replay,
                                                 ranks::Exchange* exchange = nullptr,
                                                 const RunStates& states = {});

}  // namespace dos::train
