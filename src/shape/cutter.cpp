// SPDX-License-Identifier: Apache-2.0
#include "shape/cutter.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "shape/trained_groups.hpp"

namespace dos::shape {
namespace {

void expect_fits(const std::string& what, Index count, Index limit) {
  expect(
      count <= limit,
      "sched.subgroup_params = {} is less than {} ({} parameters), which cannot be cut: raise it",
      limit, what, count);
}

void expect_few_subgroups(const std::vector<ParameterSpec>& parameters, Index limit) {
  constexpr auto kMost = static_cast<double>(kMostSubgroups);
  double count = 0;
  for (const ParameterSpec& spec : parameters) count += static_cast<double>(spec.count());
  const double subgroups = count / static_cast<double>(limit);
  expect(subgroups <= kMost,
         "sched.subgroup_params = {} cuts {:.3g} parameters into about {:.3g} subgroups, more than "
         "{:.0f}: raise it above {:.3g}, or use a smaller model.*",
         limit, count, subgroups, kMost, count / kMost);
}

/// Rows of all blocks but the last, `most` at most. A block's first row is a column of the product
/// that it makes: on a multiple of 8 it is aligned to 16 bytes in BF16, as the fast kernels of GPUs
/// ask. Below 64 rows the multiple would make blocks too unequal.
Index rows_per_block(Index rows, Index most) {
  if (rows <= most) return rows;
  const Index multiple = most < 64 ? 1 : 8;
  const Index blocks = ceil_div(rows, most / multiple * multiple);
  return ceil_div(ceil_div(rows, blocks), multiple) * multiple;
}

class Cutter {
 public:
  Cutter(Index limit, const DecayGroups& decay) : limit_(limit), decay_(decay) {}

  Layout cut(const std::vector<ParameterSpec>& parameters) {
    for (std::size_t first = 0; first < parameters.size();) {
      if (parameters[first].is_matrix()) {
        place_matrix(parameters[first++]);
        continue;
      }
      std::size_t last = first + 1;
      const std::string module = module_of(parameters[first].name);
      while (last < parameters.size() && !parameters[last].is_matrix() &&
             module_of(parameters[last].name) == module)
        ++last;
      place_vectors(module, {parameters.begin() + static_cast<std::ptrdiff_t>(first),
                             parameters.begin() + static_cast<std::ptrdiff_t>(last)});
      first = last;
    }
    return std::move(layout_);
  }

 private:
  void place_matrix(const ParameterSpec& spec) {
    expect_fits("one row of " + spec.name, spec.columns, limit_);
    const RowBlocking blocking{spec.rows, spec.columns,
                               rows_per_block(spec.rows, limit_ / spec.columns)};
    layout_.parameters.push_back({.spec = spec,
                                  .first_subgroup = std::ssize(layout_.subgroups),
                                  .offset = 0,
                                  .blocking = blocking});
    for (Index b = 0; b < blocking.count(); ++b) {
      const Index first = blocking.first_row(b);
      const Index rows = blocking.rows_of(b);
      const std::string name = blocking.count() == 1
                                   ? spec.name
                                   : fmt::format("{}[{}:{}]", spec.name, first, first + rows);
      layout_.subgroups.push_back({.name = name,
                                   .count = rows * spec.columns,
                                   .depth = spec.depth,
                                   .decay = decay_.decays(spec),
                                   .trained = spec.trained,
                                   .lr_factor = spec.lr_factor});
    }
  }

  /// Puts the vectors of one module into the open subgroup of their depth, or opens a new one.
  void place_vectors(const std::string& module, const std::vector<ParameterSpec>& vectors) {
    Index count = 0;
    for (const ParameterSpec& spec : vectors) count += spec.count();
    expect_fits("the vectors of " + module, count, limit_);
    const ParameterSpec& first = vectors.front();
    if (std::exchange(depth_, first.depth) != first.depth) open_.clear();
    Index& open = open_.try_emplace({first.trained, first.lr_factor}, kNone).first->second;
    if (open == kNone || subgroup(open).count + count > limit_) open = open_subgroup(first);
    for (const ParameterSpec& spec : vectors) {
      require(spec.trained == first.trained && spec.lr_factor == first.lr_factor,
              "the vectors of a module are trained alike");
      layout_.parameters.push_back(
          {.spec = spec, .first_subgroup = open, .offset = subgroup(open).count, .blocking = {}});
      subgroup(open).count += spec.count();
    }
  }

  /// For vectors like this one.
  Index open_subgroup(const ParameterSpec& spec) {
    const Index siblings = vector_subgroups_[spec.depth]++;
    layout_.subgroups.push_back({.name = fmt::format("depth{}.vectors{}", spec.depth, siblings),
                                 .count = 0,
                                 .depth = spec.depth,
                                 .decay = decay_.decays(spec),
                                 .trained = spec.trained,
                                 .lr_factor = spec.lr_factor});
    return std::ssize(layout_.subgroups) - 1;
  }

  Subgroup& subgroup(Index index) { return layout_.subgroups[static_cast<std::size_t>(index)]; }

  Index limit_;
  const DecayGroups& decay_;
  Layout layout_;
  static constexpr Index kNone = -1;
  Index depth_ = kNone;
  /// Subgroups of the depth that have room for more vectors, by how those are trained.
  std::map<std::pair<bool, double>, Index> open_;
  std::map<Index, Index> vector_subgroups_;  ///< opened so far, by depth
};

}  // namespace

std::string module_of(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

void expect_match(const char* key, const std::string& pattern, const char* what,
                  const std::vector<ParameterSpec>& parameters,
                  const std::function<bool(const ParameterSpec&)>& counts) {
  std::vector<std::string> names;
  for (const ParameterSpec& spec : parameters) {
    if (!counts(spec)) continue;
    if (matches(pattern, spec)) return;
    names.push_back(spec.name);
  }
  constexpr std::size_t kShown = 5;
  const std::string nearest = did_you_mean(pattern, names);
  names.resize(std::min(names.size(), kShown));
  fail("{}: '{}' matches no {} of the model{}; there are {}, ...", key, pattern, what, nearest,
       fmt::join(names, ", "));
}

bool DecayGroups::decays(const ParameterSpec& parameter) const {
  if (!parameter.is_matrix()) return vectors;
  if (parameter.name.ends_with("_embedding.weight")) return embeddings;
  return std::none_of(excluded.begin(), excluded.end(),
                      [&](const std::string& pattern) { return matches(pattern, parameter); });
}

Layout cut_into_subgroups(const std::vector<ParameterSpec>& parameters, Index subgroup_params,
                          const DecayGroups& decay) {
  expect(subgroup_params > 0, "sched.subgroup_params must be at least 1, got {}", subgroup_params);
  expect_few_subgroups(parameters, subgroup_params);
  for (const std::string& pattern : decay.excluded)
    expect_match("optim.no_decay", pattern, "matrix", parameters, &ParameterSpec::is_matrix);
  return Cutter(subgroup_params, decay).cut(parameters);
}

}  // namespace dos::shape
