// SPDX-License-Identifier: Apache-2.0
#include "generate/generator.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"
#include "fit/estimate.hpp"
#include "models/demand.hpp"
#include "models/family.hpp"
#include "platform/blas.hpp"
#include "platform/memory_limits.hpp"
#include "shape/cutter.hpp"

namespace dos::generate {
namespace {

constexpr Index kBlockParameters = 50'000'000;
constexpr shape::RunShape kShape{
    .batch = 1, .lanes = 1, .recompute = false, .training = false, .logits_rows = 1};

}  // namespace

void Generator::expect_room(const train::CheckpointReader& checkpoint) {
  const shape::ModelConfig model = checkpoint.model();
  fit::expect_countable(model, kShape);
  const std::vector<shape::ParameterSpec> parameters =
      models::find_family(model.architecture).shape.parameters(model);
  checkpoint.expect_lists(parameters);
  const shape::Layout layout = shape::cut_into_subgroups(parameters, kBlockParameters, {});
  // One worker's work space stands for all: the rest is small beside the parameters.
  const rt::MemoryBytes parameter_bytes = tensor::ParameterSet::bytes(layout, {});
  const Index bytes = parameter_bytes[MemoryCategory::kParameters] +
                      models::buffers(model, kShape, {}).total() +
                      fit::program_bytes(/*workers=*/1);
  // Gradients have buffers that nobody writes.
  const platform::MemoryLeft left = platform::memory_left(
      platform::blas::kThreadMapping + parameter_bytes[MemoryCategory::kGradients]);
  expect(
      bytes <= left.bytes,
      "{}: the model needs {} of memory, {} are available{}: use a machine with more, or raise the "
      "limit",
      checkpoint.folder().string(), format_bytes(bytes), format_bytes(left.bytes),
      left.limited_by.empty() ? "" : fmt::format(" (limited by {})", left.limited_by));
}

Generator::Generator(rt::Session& session, const train::CheckpointReader& checkpoint)
    : session_(session),
      config_(checkpoint.model()),
      submitter_(session),
      parameters_(session, shape::cut_into_subgroups(
                               shape::find_family(config_.architecture).parameters(config_),
                               kBlockParameters, {})),
      model_(std::make_unique<models::Decoder>(session, parameters_, config_, kShape)) {
  checkpoint.load_parameters(parameters_);
}

Generator::~Generator() {
  session_.wait_all();
}

void Generator::generate(std::vector<std::int32_t>& tokens, Index count, const Sampler& sampler,
                         const data::Tokenizer& tokenizer, const std::function<void()>& grown) {
  const Index vocabulary = tokenizer.vocabulary();
  require(!tokens.empty(), "a sequence to continue");
  require(vocabulary <= config_.vocabulary, "a tokenizer of the model");
  const Index context = config_.context;
  submitter_.set_tag({rt::Phase::kForward, 0});
  for (Index i = 0; i < count; ++i) {
    const Index used = std::min(context, static_cast<Index>(tokens.size()));
    // Causal: what follows the last token does not matter.
    std::vector<std::int32_t> window(static_cast<std::size_t>(context) + 1, 0);
    std::copy(tokens.end() - used, tokens.end(), window.begin());
    const rt::Handle& logits = model_->predict(submitter_, window, used - 1);
    submitter_.profile().take(0);
    const rt::HostAccess access(logits, rt::Mode::kRead);
    const auto known = access.as<const float>().first(static_cast<std::size_t>(vocabulary));
    tokens.push_back(sampler.draw(known, static_cast<Index>(tokens.size()), tokens));
    if (tokens.back() == tokenizer.end_of_text()) return;
    grown();
  }
}

}  // namespace dos::generate
