// SPDX-License-Identifier: Apache-2.0
#include "train/generator.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "models/registry.hpp"
#include "optim/subgroups.hpp"

namespace dos::train {
namespace {

constexpr Index kBlockParameters = 50'000'000;

}  // namespace

Generator::Generator(rt::Session& session, const CheckpointReader& checkpoint)
    : session_(session),
      config_(checkpoint.model()),
      submitter_(session),
      parameters_(session, optim::cut_into_subgroups(
                               models::find_architecture(config_.architecture).parameters(config_),
                               kBlockParameters, {})),
      model_(models::find_architecture(config_.architecture)
                 .build(session, parameters_, config_,
                        {.batch = 1,
                         .lanes = 1,
                         .recompute = false,
                         .training = false,
                         .logits_rows = 1})) {
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
    tokens.push_back(sampler.draw(known, static_cast<Index>(tokens.size())));
    if (tokens.back() == tokenizer.end_of_text()) return;
    grown();
  }
}

}  // namespace dos::train
