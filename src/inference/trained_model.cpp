// SPDX-License-Identifier: Apache-2.0
#include "inference/trained_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "fit/estimate.hpp"
#include "models/family.hpp"
#include "nn/initialise.hpp"
#include "platform/blas.hpp"
#include "platform/memory_limits.hpp"
#include "shape/cutter.hpp"

namespace dos::inference {
namespace {

constexpr Index kBlockParameters = 25'000'000;

std::vector<shape::ParameterSpec> parameters_of(const shape::ModelConfig& model) {
  return models::find_family(model.architecture).shape.parameters(model);
}

Index count_of(const shape::ModelConfig& model) {
  Index count = 0;
  for (const shape::ParameterSpec& spec : parameters_of(model)) count += spec.count();
  return count;
}

shape::Layout layout_of(const shape::ModelConfig& model) {
  std::vector<shape::ParameterSpec> parameters = parameters_of(model);
  for (shape::ParameterSpec& parameter : parameters) parameter.trained = false;
  return shape::cut_into_subgroups(parameters, kBlockParameters, {});
}

tensor::ParameterTypes types_of(DType working) {
  return {.working = working, .gradient = working, .frozen_values = false};
}

/// The subgroup behind those from `first` on that have `most` parameters, or behind `first`.
Index end_of_turn(const shape::Layout& layout, Index first, Index most) {
  const auto count = [&](Index i) { return layout.subgroups[static_cast<std::size_t>(i)].count; };
  Index sum = count(first);
  Index end = first + 1;
  while (end < std::ssize(layout.subgroups) && sum + count(end) <= most) sum += count(end++);
  return end;
}

/// Bytes of FP32 parameters that are in memory at most beside working ones of type `working`.
Index rounded_bytes(const shape::Layout& layout, DType working) {
  if (working == DType::kF32) return 0;
  const Index all = layout.parameter_count();
  return size_of(DType::kF32) * std::min(all, rounded_at_once(all));
}

}  // namespace

shape::ModelConfig with_context(const train::ModelSource& source, Index context,
                                const char* option) {
  shape::ModelConfig model = source.model();
  if (context == 0) return model;
  expect(context > 0, "{} must be at least 1, got {}", option, context);
  shape::ModelConfig longer = model;
  longer.context = context;
  shape::validate(longer);
  // Where the context decides how many parameters there are, some belong to positions.
  const bool has_table = count_of(longer) != count_of(model);
  expect(!has_table || context <= model.context,
         "{} = {}: the model has a table of {} positions and knows no others: lower it", option,
         context, model.context);
  return longer;
}

void expect_room(const train::ModelSource& source, const Use& use, const std::string& remedy) {
  fit::expect_countable(source.model(), {.training = false});
  fit::expect_countable(use.model, use.run);
  if (source.checkpoint() != nullptr)
    source.checkpoint()->expect_lists(parameters_of(source.model()));
  const shape::Layout layout = layout_of(source.model());
  const rt::MemoryBytes parameters = tensor::ParameterSet::bytes(layout, types_of(use.run.type));
  const models::WorkerCount workers{.all = use.workers};
  const rt::MemoryBytes buffers = use.continued
                                      ? models::buffers(use.model, *use.continued, workers)
                                      : models::buffers(use.model, use.run, workers);
  const Index bytes = parameters[MemoryCategory::kParameters] +
                      parameters[MemoryCategory::kWorking] + buffers.total() +
                      rounded_bytes(layout, use.run.type) + fit::program_bytes(use.workers);
  const platform::MemoryLeft left = platform::memory_left(platform::blas::kThreadMapping);
  expect(bytes <= left.bytes,
         "{}: the model needs {} of memory, {} are available{}: use a machine with more, {}",
         source.folder().string(), format_bytes(bytes), format_bytes(left.bytes),
         left.limited_by.empty() ? "" : fmt::format(" (limited by {})", left.limited_by), remedy);
}

TrainedModel::TrainedModel(rt::Session& session, const train::ModelSource& source, DType working,
                           Index at_once)
    : session_(session),
      submitter_(session),
      parameters_(session, layout_of(source.model()), types_of(working)) {
  submitter_.set_tag({rt::Phase::kInit, 0});
  if (parameters_.has_working())
    load_rounded(source, at_once);
  else
    source.load(parameters_);
  submitter_.profile().take(0);
}

void TrainedModel::load_rounded(const train::ModelSource& source, Index at_once) {
  if (at_once == 0) at_once = rounded_at_once(parameters_.layout().parameter_count());
  const auto count = std::ssize(parameters_.layout().subgroups);
  for (Index first = 0; first < count;) {
    const Index end = end_of_turn(parameters_.layout(), first, at_once);
    for (Index i = first; i < end; ++i) parameters_.add_values(session_, i);
    source.load(parameters_);
    nn::submit_working_parameters(submitter_, parameters_);
    for (; first < end; ++first) parameters_.drop_values(first);
  }
}

TrainedModel::~TrainedModel() {
  session_.wait_all();
}

}  // namespace dos::inference
