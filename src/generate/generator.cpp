// SPDX-License-Identifier: Apache-2.0
#include "generate/generator.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace dos::generate {

inference::Use Generator::use(const train::ModelSource& source, Index prompt, Index count) {
  // One worker's work space stands for all: the rest is small beside the parameters.
  inference::Use use{.model = source.model(), .run = {.training = false, .logits_rows = 1}};
  const Index first = std::min(use.model.context, prompt);
  use.model.context = first + std::min(use.model.context - first, count);
  return use;
}

Generator::Generator(rt::Session& session, const train::ModelSource& source,
                     const inference::Use& use)
    : config_(use.model),
      trained_(session, source),
      decoder_(session, trained_.parameters(), config_, use.run) {}

void Generator::generate(std::vector<std::int32_t>& tokens, Index count, const Sampler& sampler,
                         const data::Tokenizer& tokenizer, const std::function<void()>& grown) {
  const Index vocabulary = tokenizer.vocabulary();
  require(!tokens.empty(), "a sequence to continue");
  require(vocabulary <= config_.vocabulary, "a tokenizer of the model");
  const Index context = config_.context;
  rt::Submitter& submitter = trained_.submitter();
  submitter.set_tag({rt::Phase::kForward, 0});
  for (Index i = 0; i < count; ++i) {
    const Index used = std::min(context, static_cast<Index>(tokens.size()));
    // Causal: what follows the last token does not matter.
    std::vector<std::int32_t> window(static_cast<std::size_t>(context) + 1, 0);
    std::copy(tokens.end() - used, tokens.end(), window.begin());
    const rt::Handle& logits = decoder_.predict(submitter, window, used - 1);
    submitter.profile().take(0);
    const rt::HostAccess access(logits, rt::Mode::kRead);
    const auto known = access.as<const float>().first(static_cast<std::size_t>(vocabulary));
    tokens.push_back(sampler.draw(known, static_cast<Index>(tokens.size()), tokens));
    if (tokens.back() == tokenizer.end_of_text()) return;
    grown();
  }
}

}  // namespace dos::generate
