// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "fit/fit.hpp"

namespace dos::fit {

/// What forward and backward of the run are taken to have on each of the devices that run the
/// model, or on the CPU: what is measured (Room::measured), and for the rest assumptions that say
/// the most of devices and the least of links and disks, so that nothing is moved that might not
/// hide.
planner::PassRates pass_rates(const config::TrainConfig& config, const Room& room);

/// The configuration with the plan for activations that planner::preferred() takes of those that
/// fit, in what the run leaves of the devices that run the model, of host memory and of the disks;
/// without such devices of host memory, and nothing goes there. Weighed is the step, as by `plan`,
/// where UpdateTimes knows the update, else forward and backward alone. nullopt: none fits.
std::optional<config::TrainConfig> with_activations(const train::Run& run, const Room& room);

/// One line on a decided run: what is kept, what is moved, how long forward and backward of a
/// micro-batch are to take, and by which rates.
std::string describe_activations(const train::Run& run, const Room& room);

/// Of a decided run: bytes of activations that are on this rank's disks at a time.
Index activations_on_disks(const train::Run& run, const Room& room);
/// Of a decided run that moves activations to disks: what those come to, and how much of it stays
/// in memory for a step where a disk takes no more (Run::spare_memory). One line; "" without them.
std::string describe_rescue(const train::Run& run, const Room& room);

/// The forecast for a decided run: each class of activations by where it goes, with bytes and what
/// of its way is hidden. Some lines.
std::string explain_activations(const train::Run& run, const Room& room);

}  // namespace dos::fit
