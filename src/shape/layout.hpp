// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/row_blocking.hpp"
#include "base/types.hpp"
#include "shape/adapters.hpp"

namespace dos::shape {

/// How a parameter starts: N(0, deviation^2) if deviation > 0, uniform in [-bound, bound) if
/// bound > 0, else the constant.
struct Initialisation {
  float deviation = 0;
  float constant = 0;
  float bound = 0;
};

/// One named parameter of a model: a matrix [rows, columns] or a vector [columns] (rows == 0).
struct ParameterSpec {
  std::string name;
  Index rows = 0;
  Index columns = 0;
  Initialisation init;
  /// Place in the order in which forward needs the parameters: 0 for embeddings, 1 .. layers,
  /// layers + 1.
  Index depth = 0;
  bool is_table = false;  ///< rows are looked up: it makes no product, but as a tied head
  /// Rows (of a vector: elements) of the tensors that lie behind each other in it and that other
  /// programs keep apart; empty: it is one.
  std::vector<Index> parts{};
  bool trained = true;                   ///< else frozen: it keeps its values (trained_groups.hpp)
  double lr_factor = 1;                  ///< its learning rate over the run's
  std::optional<AdaptedRows> adapted{};  ///< of a matrix with adapters
  bool is_adapter = false;               ///< one of such a pair

  [[nodiscard]] bool is_matrix() const { return rows > 0; }
  [[nodiscard]] Index count() const { return is_matrix() ? rows * columns : columns; }
  /// [rows, columns] or [columns].
  [[nodiscard]] std::vector<Index> shape() const;
};

/// The unit of the optimizer: a row block of one matrix, or small tensors of one depth together.
struct Subgroup {
  std::string name;  ///< "blocks.0.mlp.up.weight[0:512]" or "depth1.vectors0"
  Index count = 0;   ///< parameters
  Index depth = 0;
  bool decay = false;  ///< whether weight decay applies
  // One of them for all that is in it:
  bool trained = true;   ///< else it has no gradient, no states, no update
  double lr_factor = 1;  ///< its learning rate over the run's
};

/// A parameter and where its elements lie: matrices have one subgroup a row block, from
/// `first_subgroup` on; a vector is `count()` elements from `offset` on inside `first_subgroup`.
struct PlacedParameter {
  ParameterSpec spec;
  Index first_subgroup = 0;
  Index offset = 0;
  RowBlocking blocking;  ///< of a matrix
};

/// Every parameter of a model and every subgroup they are cut into (cutter.hpp makes it).
struct Layout {
  std::vector<PlacedParameter> parameters;
  std::vector<Subgroup> subgroups;

  [[nodiscard]] Index parameter_count() const;
  /// Parameters in subgroups that are trained.
  [[nodiscard]] Index trained_count() const;
  /// Subgroups that are trained.
  [[nodiscard]] Index trained_subgroups() const;
  /// The depth at which backward ends: the lowest with something to train; one behind the last
  /// where nothing is.
  [[nodiscard]] Index first_trained_depth() const;
  /// Throws Error when no parameter has the name; suggests the nearest.
  [[nodiscard]] const PlacedParameter& find(std::string_view name) const;
  /// Names of the parameters in a subgroup, comma separated.
  [[nodiscard]] std::string members_of(Index subgroup) const;
};

/// Elements `offset` .. `offset + count - 1` of a subgroup.
struct Piece {
  Index subgroup = 0;
  Index offset = 0;
  Index count = 0;
};

/// The pieces of a parameter, in the order of its elements.
std::vector<Piece> pieces_of(const PlacedParameter& parameter);

}  // namespace dos::shape
