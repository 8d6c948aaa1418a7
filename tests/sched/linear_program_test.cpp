// SPDX-License-Identifier: Apache-2.0
#include "sched/linear_program.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "base/random.hpp"

namespace dos::sched::linear_program_test {
namespace {

using Matrix = std::vector<std::vector<double>>;

/// Gaussian elimination with row pivoting; nothing for a singular system.
std::optional<std::vector<double>> solve_square(Matrix a) {
  const std::size_t n = a.size();
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t pivot = c;
    for (std::size_t r = c + 1; r < n; ++r)
      if (std::abs(a[r][c]) > std::abs(a[pivot][c])) pivot = r;
    if (std::abs(a[pivot][c]) < 1e-9) return std::nullopt;
    std::swap(a[c], a[pivot]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == c) continue;
      const double factor = a[r][c] / a[c][c];
      for (std::size_t k = c; k <= n; ++k) a[r][k] -= factor * a[c][k];
    }
  }
  std::vector<double> x(n);
  for (std::size_t r = 0; r < n; ++r) x[r] = a[r][n] / a[r][r];
  return x;
}

/// The least objective over all vertices: every choice of as many tight rows as variables.
std::optional<double> best_vertex(const LinearProgram& program) {
  const std::size_t n = program.objective.size();
  Matrix rows;
  for (const Constraint& constraint : program.constraints) {
    rows.push_back(constraint.coefficients);
    rows.back().push_back(constraint.limit);
  }
  for (std::size_t v = 0; v < n; ++v) {
    std::vector<double> row(n + 1, 0.0);
    row[v] = 1;
    rows.push_back(row);
  }
  std::optional<double> best;
  for (unsigned choice = 0; choice < (1U << rows.size()); ++choice) {
    Matrix system;
    for (std::size_t r = 0; r < rows.size(); ++r)
      if ((choice >> r & 1U) != 0) system.push_back(rows[r]);
    if (system.size() != n) continue;
    const auto x = solve_square(system);
    if (!x) continue;
    bool feasible = true;
    double value = 0;
    for (std::size_t v = 0; v < n; ++v) {
      feasible = feasible && (*x)[v] >= -1e-9;
      value += program.objective[v] * (*x)[v];
    }
    for (const Constraint& constraint : program.constraints) {
      double sum = 0;
      for (std::size_t v = 0; v < n; ++v) sum += constraint.coefficients[v] * (*x)[v];
      const double excess = sum - constraint.limit;
      feasible = feasible && excess <= 1e-9 && (!constraint.equality || excess >= -1e-9);
    }
    if (feasible && (!best || value < *best)) best = value;
  }
  return best;
}

LinearProgram random_program(const Philox& random, std::uint64_t stream) {
  std::uint64_t next = 0;
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * random.uniform(next++, stream);
  };
  const auto variables = static_cast<std::size_t>(uniform(1, 4.999));
  const auto rows = static_cast<std::size_t>(uniform(1, 5.999));
  LinearProgram program;
  // Costs that are not negative over x >= 0: always bounded.
  for (std::size_t v = 0; v < variables; ++v) program.objective.push_back(uniform(0, 1));
  for (std::size_t r = 0; r < rows; ++r) {
    Constraint constraint;
    for (std::size_t v = 0; v < variables; ++v)
      constraint.coefficients.push_back(uniform(0, 1) < 0.2 ? 0.0 : uniform(-1, 1));
    constraint.limit = uniform(0, 1) < 0.2 ? 0.0 : uniform(-1, 1);
    constraint.equality = uniform(0, 1) < 0.2;
    program.constraints.push_back(constraint);
  }
  return program;
}

TEST(LinearProgram, EqualsTheBestVertexOfRandomProgrammes) {
  const Philox random(1);
  int feasible = 0;
  for (std::uint64_t stream = 0; stream < 2000; ++stream) {
    const LinearProgram program = random_program(random, stream);
    const LinearSolution solution = solve(program);
    const auto expected = best_vertex(program);
    ASSERT_EQ(solution.feasible, expected.has_value()) << stream;
    if (!expected) continue;
    ++feasible;
    // A few tens of operations on numbers near 1, over pivots of at least 1e-9 in the enumeration.
    ASSERT_NEAR(solution.value, *expected, 1e-6) << stream;
  }
  EXPECT_GT(feasible, 500);
}

TEST(LinearProgram, SensitivityIsTheChangeOfTheOptimum) {
  // min x + 2y, x + y >= 3, x <= 2: x = 2, y = 1.
  LinearProgram program{{1, 2}, {{{-1, -1}, -3, false}, {{1, 0}, 2, false}}};
  const LinearSolution solution = solve(program);
  EXPECT_NEAR(solution.value, 4, 1e-12);
  program.constraints[1].limit = 2.5;
  EXPECT_NEAR(solve(program).value, 4 - 0.5 * solution.sensitivity[1], 1e-12);
  EXPECT_NEAR(solution.sensitivity[1], 1, 1e-12);
  program.constraints[1].limit = 2;
  program.constraints[0].limit = -2.5;
  EXPECT_NEAR(solve(program).value, 4 - 0.5 * solution.sensitivity[0], 1e-12);
}

TEST(LinearProgram, EndsOnDegenerateOnes) {
  // Beale's example, on which the largest-coefficient rule cycles.
  const LinearProgram beale{{-0.75, 150, -0.02, 6},
                            {{{0.25, -60, -0.04, 9}, 0, false},
                             {{0.5, -90, -0.02, 3}, 0, false},
                             {{0, 0, 1, 0}, 1, false}}};
  EXPECT_NEAR(solve(beale).value, -0.05, 1e-12);
}

TEST(LinearProgram, SaysWhenNothingIsFeasible) {
  EXPECT_FALSE(solve({{1}, {{{1}, -1, false}}}).feasible);
  EXPECT_FALSE(solve({{1}, {{{1}, 1, true}, {{1}, 2, true}}}).feasible);
}

}  // namespace
}  // namespace dos::sched::linear_program_test
