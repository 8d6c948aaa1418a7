// SPDX-License-Identifier: Apache-2.0
#include "shape/layout.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/nearest.hpp"

namespace dos::shape {

std::vector<Index> ParameterSpec::shape() const {
  return is_matrix() ? std::vector<Index>{rows, columns} : std::vector<Index>{columns};
}

Index Layout::parameter_count() const {
  Index count = 0;
  for (const Subgroup& subgroup : subgroups) count += subgroup.count;
  return count;
}

Index Layout::trained_count() const {
  Index count = 0;
  for (const Subgroup& subgroup : subgroups) count += subgroup.trained ? subgroup.count : 0;
  return count;
}

Index Layout::trained_subgroups() const {
  return std::ranges::count_if(subgroups, &Subgroup::trained);
}

Index Layout::first_trained_depth() const {
  Index end = 0;
  for (const Subgroup& subgroup : subgroups) end = std::max(end, subgroup.depth + 1);
  Index first = end;
  for (const Subgroup& subgroup : subgroups)
    if (subgroup.trained) first = std::min(first, subgroup.depth);
  return first;
}

const PlacedParameter& Layout::find(std::string_view name) const {
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const PlacedParameter& p) { return p.spec.name == name; });
  if (found != parameters.end()) return *found;
  std::vector<std::string> names;
  for (const PlacedParameter& parameter : parameters) names.push_back(parameter.spec.name);
  fail("the model has no parameter '{}'{}", name, did_you_mean(name, names));
}

std::string Layout::members_of(Index subgroup) const {
  std::string names;
  for (const PlacedParameter& parameter : parameters)
    for (const Piece& piece : pieces_of(parameter))
      if (piece.subgroup == subgroup) names += (names.empty() ? "" : ", ") + parameter.spec.name;
  return names;
}

std::vector<Piece> pieces_of(const PlacedParameter& parameter) {
  if (!parameter.spec.is_matrix())
    return {{parameter.first_subgroup, parameter.offset, parameter.spec.count()}};
  std::vector<Piece> pieces;
  const RowBlocking& blocking = parameter.blocking;
  for (Index b = 0; b < blocking.count(); ++b)
    pieces.push_back({parameter.first_subgroup + b, 0, blocking.rows_of(b) * blocking.columns});
  return pieces;
}

}  // namespace dos::shape
