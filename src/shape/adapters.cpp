// SPDX-License-Identifier: Apache-2.0
#include "shape/adapters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"

namespace dos::shape {
namespace {

constexpr std::string_view kBlocks = "blocks.";

/// "mlp.up" of "blocks.0.mlp.up"; "" outside of blocks.
std::string in_block(const std::string& module) {
  if (!module.starts_with(kBlocks)) return "";
  const std::size_t dot = module.find('.', kBlocks.size());
  return dot == std::string::npos ? "" : module.substr(dot + 1);
}

/// The rows of each adapted part. Throws Error for parts that the matrix lacks, or a rank above its
/// sides.
AdaptedRows adapted_rows(const ParameterSpec& spec, const Adapters& adapters,
                         const std::string& module, const std::vector<Index>& wanted) {
  const std::vector<Index> sizes = spec.parts.empty() ? std::vector{spec.rows} : spec.parts;
  AdaptedRows result{.rank = adapters.rank, .scale = adapters.scale()};
  Index first = 0;
  for (Index part = 0; part < std::ssize(sizes); ++part) {
    const Index rows = sizes[static_cast<std::size_t>(part)];
    if (std::ranges::find(wanted, part) != wanted.end()) {
      expect(
          adapters.rank <= std::min(rows, spec.columns),
          "lora.rank = {} is above {}, the smaller side of a matrix [{}, {}] of {}: lower it, or "
          "take others in lora.targets",
          adapters.rank, std::min(rows, spec.columns), rows, spec.columns, module);
      result.parts.push_back({first, rows});
    }
    first += rows;
  }
  expect(!wanted.empty() && result.parts.size() == wanted.size() && std::ranges::is_sorted(wanted),
         "adapters of the parts {} of {}: it has the parts 0 to {}", fmt::join(wanted, ", "),
         module, std::ssize(sizes) - 1);
  return result;
}

/// Uniform in +-1 / sqrt(in), and zeros: so starts PEFT, kaiming_uniform_(a=sqrt(5)).
std::vector<ParameterSpec> pair_of(const ParameterSpec& matrix, const AdaptedRows& adapted) {
  const std::string module = module_of(matrix.name);
  ParameterSpec down{
      .name = down_name(module),
      .rows = adapted.width(),
      .columns = matrix.columns,
      .init = {.bound = static_cast<float>(1 / std::sqrt(static_cast<double>(matrix.columns)))},
      .depth = matrix.depth};
  ParameterSpec up{
      .name = up_name(module), .columns = adapted.rank, .init = {}, .depth = matrix.depth};
  for (const AdaptedRows::Part& part : adapted.parts) {
    down.parts.push_back(adapted.rank);
    up.parts.push_back(part.rows);
    up.rows += part.rows;
  }
  down.is_adapter = up.is_adapter = true;
  return {std::move(down), std::move(up)};
}

void expect_adaptable(const Adapters& adapters) {
  expect(adapters.rank > 0, "lora.rank must be at least 1 (or 0: no adapters), got {}",
         adapters.rank);
  expect(std::isfinite(adapters.alpha) && adapters.alpha > 0,
         "lora.alpha = {} must be above 0: adapters that count nothing learn nothing",
         adapters.alpha);
  expect(!adapters.targets.empty(),
         "lora.rank = {}: no module is adapted; name some in "
         "lora.targets",
         adapters.rank);
}

}  // namespace

double Adapters::scale() const {
  const auto size = static_cast<double>(rank);
  return alpha / (by_root ? std::sqrt(size) : size);
}

std::string down_name(const std::string& module) {
  return module + ".lora_a.weight";
}

std::string up_name(const std::string& module) {
  return module + ".lora_b.weight";
}

std::string between_name(const std::string& module) {
  const std::string inside = in_block(module);
  return (inside.empty() ? module : inside) + ".lora";
}

std::vector<ParameterSpec> Family::parameters(const ModelConfig& config) const {
  std::vector<ParameterSpec> own = own_parameters(config);
  const Adapters& adapters = config.adapters;
  if (!adapters.any()) return own;
  expect_adaptable(adapters);
  std::vector<ParameterSpec> all;
  std::map<std::string, bool> found;
  for (const auto& [module, parts] : adapters.targets) found[module] = false;
  for (ParameterSpec& spec : own) {
    const std::string module = in_block(module_of(spec.name));
    const auto target = adapters.targets.find(module);
    const bool is_target = target != adapters.targets.end() && spec.is_matrix();
    std::vector<ParameterSpec> pair;
    if (is_target) {
      found[module] = true;
      spec.adapted = adapted_rows(spec, adapters, module, target->second);
      pair = pair_of(spec, *spec.adapted);
    }
    all.push_back(std::move(spec));
    std::ranges::move(pair, std::back_inserter(all));
  }
  for (const auto& [module, is_there] : found)
    expect(is_there, "adapters of '{}': blocks of {} have no such matrix", module, name);
  return all;
}

BlockShape Family::block(const ModelConfig& config) const {
  BlockShape shape = own_block(config);
  if (!config.adapters.any()) return shape;
  constexpr Index kFirstBlock = 1;
  for (const ParameterSpec& spec : parameters(config)) {
    if (spec.depth > kFirstBlock) break;
    if (!spec.adapted || spec.depth != kFirstBlock) continue;
    const Activation between{between_name(module_of(spec.name)), spec.adapted->width()};
    shape.kept.push_back(between);
    shape.gradients.push_back(between);
    // Down and up; the way back for what lies between and for the input.
    shape.forward_tasks += 2;
    shape.recompute_tasks += 2;
    shape.backward_tasks += 2;
  }
  return shape;
}

}  // namespace dos::shape
