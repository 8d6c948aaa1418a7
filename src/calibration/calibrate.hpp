// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace dos::calibration {

/// What the command line of calibrate says.
struct Options {
  std::filesystem::path output;  ///< the machine file
  std::vector<Index> subgroup_params{5'000'000};
  std::string rule = "adamw";
  std::string precision = "fp32";  ///< fp32: w is p, g FP32; bf16: w and g BF16
  Index workers = 0;               ///< CPU workers; 0: as many as StarPU takes
  Index opencl_devices = 0;        ///< -1: all
  Index cuda_devices = -1;         ///< -1: all
  std::vector<std::string> disks;  ///< NAME=FOLDER[:SIZE] each (parse_disk())
  double most_spread = 0.1;
  bool allow_noise = false;
  bool force = false;  ///< replace a file that is not this machine's calibration
  bool quick = false;  ///< little data, few readings: to see that it works

  /// Throws Error for a value out of range or an unknown name.
  void validate() const;
};

/// Measures this machine, prints the rates and what has changed since the file was written, fills
/// StarPU's history models of the updates, and replaces the file. Throws Error, with the file
/// untouched and no history written, when the rates are too noisy.
void calibrate(const Options& options);

}  // namespace dos::calibration
