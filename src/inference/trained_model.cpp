// SPDX-License-Identifier: Apache-2.0
#include "inference/trained_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/memory_category.hpp"
#include "base/units.hpp"
#include "fit/estimate.hpp"
#include "models/family.hpp"
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
  return {.working = working, .gradient = working};
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
                      program_bytes(use.workers);
  const platform::MemoryLeft left = platform::memory_left(platform::blas::kThreadMapping);
  expect(bytes <= left.bytes,
         "{}: the model needs {} of memory, {} are available{}: use a machine with more, {}",
         source.folder().string(), format_bytes(bytes), format_bytes(left.bytes),
         left.limited_by.empty() ? "" : fmt::format(" (limited by {})", left.limited_by), remedy);
}

TrainedModel::TrainedModel(rt::Session& session, const train::ModelSource& source, DType working)
    : session_(session),
      submitter_(session),
      parameters_(session, layout_of(source.model()), types_of(working)) {
  source.load(parameters_);
}

TrainedModel::~TrainedModel() {
  session_.wait_all();
}

}  // namespace dos::inference
