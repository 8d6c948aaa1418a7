// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace dos::sched {

/// One row of a linear programme: coefficients . x <= limit, or == limit.
struct Constraint {
  std::vector<double> coefficients;
  double limit = 0;
  bool equality = false;
};

/// Minimise objective . x over x >= 0 under the constraints.
struct LinearProgram {
  std::vector<double> objective;
  std::vector<Constraint> constraints;
};

struct LinearSolution {
  bool feasible = false;
  double value = 0;
  std::vector<double> x;
  /// By how much the optimum falls when a constraint's limit rises by one; >= 0 for inequalities.
  std::vector<double> sensitivity;
};

/// Dense simplex in two phases with Bland's rule, so it ends on degenerate programmes too. Meant
/// for tens of variables. Pre: each constraint has as many coefficients as the objective; the
/// optimum is bounded (throws ContractViolation otherwise).
LinearSolution solve(const LinearProgram& program);

}  // namespace dos::sched
