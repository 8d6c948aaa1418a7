// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/error.hpp"
#include "fit/estimate.hpp"
#include "fit/fit.hpp"
#include "message_of.hpp"

/// Runs of a small model in rooms of any size.
namespace dos::fit {

inline const shape::ModelConfig kModel{"gpt2", 4, 64, 4, 1024, 1000};

inline train::Run run_of(const config::TrainConfig& config) {
  return train::make_run(config, kModel);
}

inline config::TrainConfig config_of(Index batch, Index accumulate = 1) {
  config::TrainConfig config;
  config.train.batch = batch;
  config.train.accumulate = accumulate;
  return config;
}

/// One GPU of `bytes`, and a host that holds anything.
inline Room room_with(double bytes, Index devices = 1) {
  Room room{.host_bytes = Index{1} << 50, .workers = 2, .cpu_workers = 1, .devices = {}};
  for (Index i = 0; i < devices; ++i)
    room.devices.push_back(
        {.name = "CUDA " + std::to_string(i), .bytes = static_cast<Index>(bytes)});
  return room;
}

inline double needed(const config::TrainConfig& config, Index devices = 1) {
  return estimate_run(run_of(config), room_with(1e15, devices)).devices.front().total().value();
}

/// The same with no more weights than the layer at work and the next one have.
inline double least_needed(const config::TrainConfig& config, Index devices = 1) {
  return estimate_run(run_of(config), room_with(1, devices)).devices.front().total().value();
}

inline config::TrainConfig fit(config::TrainConfig config, double bytes, const char* how = "auto",
                               Index devices = 1) {
  config.train.fit = how;
  return fit_to(run_of(config), room_with(bytes, devices)).config;
}

inline std::string error_of(const config::TrainConfig& config, double bytes) {
  return test::message_of<Error>([&] { fit(config, bytes, "error"); });
}

inline config::TrainConfig recomputing(config::TrainConfig config) {
  config.train.recompute = true;
  return config;
}

inline config::TrainConfig with_activations(config::TrainConfig config, const std::string& text) {
  config.train.activations = text;
  return config;
}

}  // namespace dos::fit
