// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "base/types.hpp"
#include "launch/rank_place.hpp"
#include "perfmodels/machine.hpp"
#include "perfmodels/rates.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/exchange.hpp"

namespace dos::launch {

/// The value of dist.weights that stands for measured rates.
inline constexpr const char* kAutoWeights = "auto";

/// This machine, as calibrate writes it into a machine file. Throws Error when it cannot be read.
perfmodels::Host this_host();

/// Whether `calibrate` has written a file of this machine, "this" of `machines`.
bool is_calibrated(const std::filesystem::path& machines);

/// That file, for the GPUs that the rank sees. Throws Error where there is none, or one of another
/// machine.
perfmodels::Machine calibrated_machine(const std::filesystem::path& machines,
                                       const RankPlace& place);

/// Of each GPU of a rank, what that file says, divided among the node's ranks; nothing where there
/// is none that fits.
std::optional<perfmodels::GpuRates> measured_link(const std::filesystem::path& machines,
                                                  const RankPlace& place);

/// How fast a rank with these rates updates parameters: by the bound of docs/scheduler.md, with no
/// states resident on a GPU and sums of gradients in host memory.
units::ParamsPerSecond update_rate(const perfmodels::Rates& rates);

/// Rates relative to the fastest, to three digits.
std::vector<double> relative_weights(const std::vector<double>& rates);

/// dist.weights, one number a rank. With "auto" each rank brings the rate of what `calibrate`
/// measured on its node (the machine file "this" of `machines`), divided among the node's ranks;
/// without `uses_gpus`, that of its CPU alone. Waits for all. Throws ranks::AgreedError on every
/// rank when one has no such file, and Error as shape::parse_weights() does.
std::vector<double> rank_weights(const std::string& text, const std::filesystem::path& machines,
                                 const RankPlace& place, bool uses_gpus, ranks::Exchange& exchange);

}  // namespace dos::launch
