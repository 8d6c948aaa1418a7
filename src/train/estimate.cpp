// SPDX-License-Identifier: Apache-2.0
#include "train/estimate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"
#include "models/registry.hpp"
#include "train/sharding.hpp"
#include "train/step_results.hpp"

namespace dos::train {

rt::MemoryBytes estimate_training(const models::ModelConfig& model, const models::RunShape& shape,
                                  const tensor::Layout& layout, const tensor::ParameterTypes& types,
                                  const optim::OptimizerOptions& optimizer, Index workers,
                                  Index run_ahead, const RankShare& share) {
  rt::MemoryBytes bytes =
      models::find_architecture(model.architecture).buffers(model, shape, workers);
  const rt::MemoryBytes parameters = tensor::ParameterSet::bytes(layout, types, share.placement());
  const rt::MemoryBytes between_ranks =
      share.ranks > 1 ? Sharding::bytes(layout, share, types.gradient) : rt::MemoryBytes{};
  for (const rt::MemoryCategory category : rt::kMemoryCategories)
    bytes[category] += parameters[category] + between_ranks[category];
  bytes[rt::MemoryCategory::kStates] +=
      optim::Optimizer::state_bytes(layout, optimizer, share.placement());
  bytes[rt::MemoryCategory::kData] += StepResults::bytes(run_ahead);
  return bytes;
}

std::string memory_table(const rt::MemoryBytes& bytes, Index available) {
  std::string text;
  for (const rt::MemoryCategory category : rt::kMemoryCategories)
    text += fmt::format("  {:<18}{:>12}\n", rt::name_of(category), format_bytes(bytes[category]));
  text += fmt::format("  {:<18}{:>12}\n", "total", format_bytes(bytes.total()));
  text += fmt::format("  {:<18}{:>12}", "available", format_bytes(available));
  return text;
}

std::string totals_by_rank(const std::vector<rt::MemoryBytes>& bytes) {
  std::vector<std::string> parts;
  for (std::size_t rank = 0; rank < bytes.size(); ++rank)
    parts.push_back(fmt::format("rank {} {}", rank, format_bytes(bytes[rank].total())));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void expect_fits(const rt::MemoryBytes& bytes, Index available) {
  expect(bytes.total() <= available,
         "the run needs {} of host memory, {} are available: use a smaller model.*, train.batch or "
         "model.context, or train.recompute=true\n{}",
         format_bytes(bytes.total()), format_bytes(available), memory_table(bytes, available));
}

void expect_countable(const models::ModelConfig& model, const models::RunShape& shape) {
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

}  // namespace dos::train
