// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/keys.hpp"
#include "planner/planner.hpp"
#include "shape/model.hpp"

namespace dos::config {

/// A planned step of train_gpt with this configuration, as `plan` knows it: model, subgroups,
/// share, stride, window and residents of [sched], dist.zero, train.precision, train.gpu_memory,
/// train.host_memory, train.recompute, train.activations, and train.batch as the sequences of a
/// rank; what the file leaves out is train_gpt's default. Machine, ranks and policy stay those of
/// `request`. Throws Error, starting with the file, for a value that train_gpt would refuse.
void take_configuration(const std::string& file, planner::Request& request);

/// What of the keys plan reads, too. Numbers that leave a choice to the policy change nothing.
void take_keys(Keys keys, planner::PlanSettings& settings);

/// Gives the planned model the adapters that the settings say. Throws Error as take_adapters().
void adapt_model(planner::Request& request);

/// A model for `plan --model`: any of shape::preset_names(), or "hf:DIR" for that of
/// DIR/config.json. Throws Error with the nearest name, or as hf::read_config().
shape::Model find_planned_model(const std::string& name);

}  // namespace dos::config
