// SPDX-License-Identifier: Apache-2.0
#include "shape/specs.hpp"

#include <cmath>

namespace dos::shape {

float residual_deviation(Index layers) {
  return kInitialDeviation / std::sqrt(2.0F * static_cast<float>(layers));
}

void Specs::matrix(const std::string& name, Index rows, Index columns, float deviation) {
  specs_.push_back({.name = name + ".weight",
                    .rows = rows,
                    .columns = columns,
                    .init = {.deviation = deviation, .constant = 0},
                    .depth = depth_});
}

void Specs::table(const std::string& name, Index rows, Index columns) {
  matrix(name, rows, columns);
  specs_.back().is_table = true;
}

void Specs::linear(const std::string& name, Index out, Index in, float deviation) {
  matrix(name, out, in, deviation);
  bias(name, out);
}

void Specs::norm(const std::string& name, Index width) {
  scale(name, width);
  bias(name, width);
}

void Specs::vector(const std::string& name, Index count, float value) {
  specs_.push_back({.name = name,
                    .rows = 0,
                    .columns = count,
                    .init = {.deviation = 0, .constant = value},
                    .depth = depth_});
}

}  // namespace dos::shape
