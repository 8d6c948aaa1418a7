// SPDX-License-Identifier: Apache-2.0
#include "sched/linear_program.hpp"

#include <cmath>
#include <cstddef>

#include "base/error.hpp"

namespace dos::sched {
namespace {

// Programmes are scaled by their makers to numbers near 1; smaller ones are rounding.
constexpr double kEpsilon = 1e-10;
/// A difference this small beside its terms is zero: as a pivot it would ruin the table.
constexpr double kCancelled = 1e-12;

using Row = std::vector<double>;

/// Columns: variables, one slack a constraint, one artificial variable a constraint, the limit.
class Tableau {
 public:
  explicit Tableau(const LinearProgram& program)
      : variables_(program.objective.size()), rows_(program.constraints.size()) {
    for (std::size_t r = 0; r < rows_; ++r) {
      const Constraint& constraint = program.constraints[r];
      require(constraint.coefficients.size() == variables_, "a coefficient for each variable");
      const double sign = constraint.limit < 0 ? -1 : 1;
      Row row(columns() + 1, 0.0);
      for (std::size_t v = 0; v < variables_; ++v) row[v] = sign * constraint.coefficients[v];
      if (!constraint.equality) row[slack(r)] = sign;
      row[artificial(r)] = 1;
      row.back() = sign * constraint.limit;
      table_.push_back(row);
      // A slack with coefficient 1 starts in the basis; otherwise an artificial variable does.
      basis_.push_back(row[slack(r)] > 0 ? slack(r) : artificial(r));
    }
  }

  [[nodiscard]] std::size_t columns() const { return variables_ + 2 * rows_; }
  [[nodiscard]] std::size_t slack(std::size_t row) const { return variables_ + row; }
  [[nodiscard]] std::size_t artificial(std::size_t row) const { return variables_ + rows_ + row; }

  /// Minimises `costs` over the columns below `usable`; the reduced costs stay in reduced().
  void minimise(const Row& costs, std::size_t usable) {
    reduced_ = costs;
    reduced_.push_back(0);
    for (std::size_t r = 0; r < rows_; ++r) eliminate(reduced_, table_[r], basis_[r]);
    while (true) {
      std::size_t entering = 0;
      while (entering < usable && reduced_[entering] >= -kEpsilon) ++entering;
      if (entering == usable) return;
      pivot(leaving_row(entering), entering);
    }
  }

  /// Takes artificial variables at zero out of the basis, so that they cannot grow again.
  void drop_artificials() {
    for (std::size_t r = 0; r < rows_; ++r) {
      if (basis_[r] < variables_ + rows_) continue;
      std::size_t column = 0;
      while (column < variables_ + rows_ && std::abs(table_[r][column]) <= kEpsilon) ++column;
      if (column < variables_ + rows_) pivot(r, column);
    }
  }

  [[nodiscard]] double value() const { return -reduced_.back(); }
  [[nodiscard]] double reduced(std::size_t column) const { return reduced_[column]; }
  [[nodiscard]] Row solution() const {
    Row x(variables_, 0.0);
    for (std::size_t r = 0; r < rows_; ++r)
      if (basis_[r] < variables_) x[basis_[r]] = table_[r].back();
    return x;
  }

 private:
  static void eliminate(Row& row, const Row& by, std::size_t column) {
    const double factor = row[column];
    if (factor == 0) return;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const double product = factor * by[c];
      row[c] -= product;
      if (std::abs(row[c]) < kCancelled * std::abs(product)) row[c] = 0;
    }
    row[column] = 0;
  }

  [[nodiscard]] std::size_t leaving_row(std::size_t entering) const {
    std::size_t best = rows_;
    double best_ratio = 0;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (table_[r][entering] <= kEpsilon) continue;
      const double ratio = table_[r].back() / table_[r][entering];
      if (best == rows_ || ratio < best_ratio ||
          (ratio == best_ratio && basis_[r] < basis_[best])) {
        best = r;
        best_ratio = ratio;
      }
    }
    require(best < rows_, "the linear programme is bounded");
    return best;
  }

  void pivot(std::size_t row, std::size_t column) {
    const double divisor = table_[row][column];
    for (double& entry : table_[row]) entry /= divisor;
    for (std::size_t r = 0; r < rows_; ++r)
      if (r != row) eliminate(table_[r], table_[row], column);
    eliminate(reduced_, table_[row], column);
    basis_[row] = column;
  }

  std::size_t variables_;
  std::size_t rows_;
  std::vector<Row> table_;
  std::vector<std::size_t> basis_;
  Row reduced_;
};

}  // namespace

LinearSolution solve(const LinearProgram& program) {
  const std::size_t variables = program.objective.size();
  const std::size_t rows = program.constraints.size();
  Tableau tableau(program);
  Row first(tableau.columns(), 0.0);
  for (std::size_t r = 0; r < rows; ++r) first[tableau.artificial(r)] = 1;
  tableau.minimise(first, tableau.columns());
  LinearSolution solution;
  // Sums of a few tens of terms near 1.
  if (tableau.value() > 1e-9) return solution;
  tableau.drop_artificials();
  Row costs(tableau.columns(), 0.0);
  for (std::size_t v = 0; v < variables; ++v) costs[v] = program.objective[v];
  tableau.minimise(costs, variables + rows);
  solution.feasible = true;
  solution.value = tableau.value();
  solution.x = tableau.solution();
  for (std::size_t r = 0; r < rows; ++r) {
    const double price = program.constraints[r].equality ? 0 : tableau.reduced(tableau.slack(r));
    solution.sensitivity.push_back(price);
  }
  return solution;
}

}  // namespace dos::sched
