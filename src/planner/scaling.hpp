// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "planner/planner.hpp"

namespace dos::planner {

/// A model by name: config::find_planned_model, which knows more than the planner.
using ModelFinder = shape::Model (*)(const std::string& name);

/// The runs of docs/performance/scaling.md: 20B on 4, 70B on 16, 175B on 64 and 1T on 1024 ranks of
/// h100-4x, one rank a GPU, with the default settings.
std::vector<Request> scaling_runs(const std::filesystem::path& machines, ModelFinder find_model);

/// The same request with the largest micro-batch of 1, 2, 4, .. 64 that fits; 1 if none does.
Request with_largest_micro_batch(Request request);

/// The tables of that page, as Markdown: by ZeRO level, by micro-batch, and by which part of the
/// machine would have to be twice as fast.
std::string scaling_tables(const std::filesystem::path& machines, ModelFinder find_model);

}  // namespace dos::planner
