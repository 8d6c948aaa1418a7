// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shape/layout.hpp"

namespace dos::shape {

/// The standard deviation with which matrices start, as GPT-2's.
inline constexpr float kInitialDeviation = 0.02F;

/// Each layer adds two projections to the residual stream: so much keeps its variance independent
/// of their number.
float residual_deviation(Index layers);

/// Collects the parameters of a model in the order of forward, depth by depth.
class Specs {
 public:
  /// "<name>.weight" [rows, columns].
  void matrix(const std::string& name, Index rows, Index columns,
              float deviation = kInitialDeviation);
  /// The same, whose rows are looked up.
  void table(const std::string& name, Index rows, Index columns);
  /// Parts of the last tensor (ParameterSpec::parts).
  void parts(std::vector<Index> sizes) { specs_.back().parts = std::move(sizes); }
  /// "<name>.bias" [out] of zeros.
  void bias(const std::string& name, Index out) { vector(name + ".bias", out, 0); }
  /// "<name>.weight" [out, in] and "<name>.bias" [out].
  void linear(const std::string& name, Index out, Index in, float deviation = kInitialDeviation);
  /// "<name>.weight" [width] of ones.
  void scale(const std::string& name, Index width) { vector(name + ".weight", width, 1); }
  /// scale() and "<name>.bias" [width] of zeros.
  void norm(const std::string& name, Index width);
  void next_depth() { ++depth_; }
  std::vector<ParameterSpec> take() { return std::move(specs_); }

 private:
  void vector(const std::string& name, Index count, float value);
  std::vector<ParameterSpec> specs_;
  Index depth_ = 0;
};

}  // namespace dos::shape
