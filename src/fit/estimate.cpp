// SPDX-License-Identifier: Apache-2.0
#include "fit/estimate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.hpp"
#include "base/units.hpp"
#include "models/demand.hpp"
#include "optim/optimizer.hpp"
#include "optim/rules.hpp"
#include "ranks/sharding.hpp"
#include "rt/cuda.hpp"
#include "shape/activation_sets.hpp"
#include "train/step_results.hpp"

namespace dos::fit {
namespace {

/// Blocks that backward goes through.
Index reached_by(const shape::ModelConfig& model, const shape::Layout& layout) {
  return shape::reached_blocks(model, layout.first_trained_depth());
}

}  // namespace

rt::MemoryBytes estimate_training(const shape::ModelConfig& model, const shape::RunShape& shape,
                                  const shape::Layout& layout, const tensor::ParameterTypes& types,
                                  const optim::OptimizerOptions& optimizer,
                                  const models::WorkerCount& workers, Index run_ahead,
                                  const ranks::RankShare& share) {
  const Index reached = reached_by(model, layout);
  rt::MemoryBytes bytes = models::buffers(model, shape, workers, reached);
  if (workers.cuda > 0) {
    bytes[MemoryCategory::kActivations] -= models::bytes_on_devices(model, shape, reached);
    bytes[MemoryCategory::kWorkspace] = 0;
  }
  const rt::MemoryBytes parameters = tensor::ParameterSet::bytes(layout, types, share.ownership());
  const rt::MemoryBytes between_ranks =
      share.ranks > 1 ? ranks::Sharding::bytes(layout, share, types.gradient) : rt::MemoryBytes{};
  for (const MemoryCategory category : kBufferCategories)
    bytes[category] += parameters[category] + between_ranks[category];
  bytes[MemoryCategory::kStates] += optim::state_bytes(layout, optimizer, share.ownership());
  bytes[MemoryCategory::kData] += train::StepResults::bytes(run_ahead);
  return bytes;
}

namespace {

units::Bytes bytes_of(Index count) {
  return units::Bytes(static_cast<double>(count));
}

Index logits_bytes(const shape::ModelConfig& model, const shape::RunShape& shape) {
  Index rows = 0;
  for (Index lane = 0; lane < shape.lanes; ++lane)
    rows += std::min(shape.lane_sequences(lane) * model.context, shape.logits_rows);
  return rows * shape::logits_stride(model.vocabulary) * size_of(shape.type);
}

/// Parameters that count of the depth with most of them.
template <class Counts>
Index largest_depth(const shape::Layout& layout, const Counts& counts) {
  std::map<Index, Index> by_depth;
  for (const shape::Subgroup& subgroup : layout.subgroups)
    if (std::invoke(counts, subgroup)) by_depth[subgroup.depth] += subgroup.count;
  Index most = 0;
  for (const auto& [depth, count] : by_depth) most = std::max(most, count);
  return most;
}

}  // namespace

shape::RunShape device_part(const shape::RunShape& shape, Index devices) {
  shape::RunShape part = shape;
  part.lanes = (shape.lanes + devices - 1) / devices;
  part.batch = 0;
  for (Index lane = 0; lane < part.lanes; ++lane) part.batch += shape.lane_sequences(lane);
  return part;
}

planner::MemoryUse estimate_device(const shape::ModelConfig& model, const shape::RunShape& shape,
                                   const shape::Layout& layout, const tensor::ParameterTypes& types,
                                   const tensor::Ownership& ownership, Index accumulate,
                                   Index devices, units::Bytes available, bool weights_may_pass) {
  const shape::RunShape part = device_part(shape, devices);
  const Index reached = reached_by(model, layout);
  rt::MemoryBytes buffers = models::buffers(model, part, {.all = 1, .cuda = 1}, reached);
  buffers[MemoryCategory::kActivations] -= models::host_slot_bytes(model, part, reached);
  const rt::MemoryBytes kept = tensor::ParameterSet::bytes(layout, types, ownership);
  const tensor::BufferPlan plan(layout, types, ownership);
  const bool is_narrow = types.working != DType::kF32;
  const Index logits = logits_bytes(model, part);
  const Index gradient = size_of(types.gradient);
  const planner::GpuDemand demand{
      .weights = bytes_of(kept[is_narrow ? MemoryCategory::kWorking : MemoryCategory::kParameters]),
      .weight_buffers =
          bytes_of(2 * size_of(types.working) *
                   largest_depth(layout, [](const shape::Subgroup&) { return true; })),
      .gathered = {},
      // Without the sums over ranks, which the CPU makes.
      .gradients = bytes_of(gradient * tensor::element_count(layout, plan.gradients)),
      .gradient_buffers = bytes_of(2 * gradient * largest_depth(layout, &shape::Subgroup::trained)),
      .others_gradients = {},
      .reduced = {},
      .activations =
          bytes_of(buffers[MemoryCategory::kActivations] - logits + buffers[MemoryCategory::kData]),
      .logits = bytes_of(logits),
      .rest = {MemoryCategory::kWorkSpaces,
               bytes_of(buffers[MemoryCategory::kWorkspace] +
                        models::cuda_workspace_bytes(model, part.type))}};
  planner::MemoryUse use = planner::gpu_use(demand, available);
  if (use.fits()) return use;
  if (accumulate == 1) use = planner::gpu_use(demand, available, {.gradients = 0});
  if (weights_may_pass) planner::let_weights_pass(use, demand.weight_buffers);
  return use;
}

Index largest_update_bytes(const shape::Layout& layout, const tensor::ParameterTypes& types,
                           const optim::OptimizerOptions& optimizer, bool model_on_host,
                           Index ranks, std::span<const Index> ahead) {
  Index most = 0;
  for (const shape::Subgroup& subgroup : layout.subgroups)
    if (subgroup.trained) most = std::max(most, subgroup.count);
  Index most_ahead = 0;
  for (const Index subgroup : ahead)
    most_ahead = std::max(most_ahead, layout.subgroups[static_cast<std::size_t>(subgroup)].count);
  const Index states = size_of(DType::kF32) * (1 + optim::states_of_rule(optimizer.rule));
  const bool has_working = model_on_host && types.working != DType::kF32;
  const Index gradient = ranks > 1       ? size_of(DType::kF32)
                         : model_on_host ? size_of(types.gradient)
                                         : 0;
  const Index one_bank = states + gradient + (has_working ? size_of(types.working) : 0);
  return std::max(most * one_bank, most_ahead * (one_bank + states));
}

planner::MemoryUse host_use(const rt::MemoryBytes& bytes, const Unregistered& rest,
                            Index available) {
  planner::MemoryUse use{.items = {}, .available = bytes_of(available)};
  for (const MemoryCategory category : kBufferCategories)
    use.items.push_back({category, bytes_of(bytes[category])});
  use.items.push_back({MemoryCategory::kTokensAhead, rest.tokens});
  use.items.push_back({MemoryCategory::kRuntime, rest.runtime});
  use.items.push_back({MemoryCategory::kProgram, rest.program});
  use.items.push_back({MemoryCategory::kCheckpoints, rest.checkpoints});
  return use;
}

std::string size_text(units::Bytes bytes) {
  return format_bytes(static_cast<Index>(std::min(bytes.value(), 0x1p62)));
}

std::string memory_table(const planner::MemoryUse& use) {
  std::string text;
  for (const planner::MemoryItem& item : use.items)
    if (item.bytes.value() > 0)
      text += fmt::format("  {:<18}{:>12}\n", name_of(item.category), size_text(item.bytes));
  text += fmt::format("  {:<18}{:>12}\n", "total", size_text(use.total()));
  text += fmt::format("  {:<18}{:>12}", "available", size_text(use.available));
  return text;
}

std::string totals_by_rank(const std::vector<units::Bytes>& totals) {
  std::vector<std::string> parts;
  for (std::size_t rank = 0; rank < totals.size(); ++rank)
    parts.push_back(fmt::format("rank {} {}", rank, size_text(totals[rank])));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void expect_countable(const shape::ModelConfig& model, const shape::RunShape& shape) {
  constexpr double kMost = 0x1p50;
  const auto real = [](Index value) { return static_cast<double>(value); };
  const double width = real(model.width);
  const double tokens = real(shape.batch) * real(model.context);
  const double largest = std::max(
      {real(model.layers) * width * std::max(tokens, width),
       (real(model.vocabulary) + real(model.context)) * std::max(width, real(model.context)),
       std::min(tokens, real(shape.lanes) * real(shape.logits_rows)) * real(model.vocabulary)});
  expect(largest <= kMost,
         "the run would need buffers of more than 10^15 numbers: lower model.layers = {}, "
         "model.width = {}, model.context = {}, model.vocab = {} or train.batch = {}",
         model.layers, model.width, model.context, model.vocabulary, shape.batch);
}

}  // namespace dos::fit
