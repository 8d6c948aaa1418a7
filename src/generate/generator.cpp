// SPDX-License-Identifier: Apache-2.0
#include "generate/generator.hpp"

#include <algorithm>

#include "base/bf16.hpp"
#include "base/error.hpp"

namespace dos::generate {
namespace {

/// Tokens of a prompt that are computed together: as many as make products of matrices fast, and as
/// few as leave a long prompt parts for several workers.
constexpr Index kMostChunk = 128;
constexpr Index kMostLanes = 4;

/// Chunks of about one size for `tokens` tokens.
models::ContinuationShape chunks_of(Index tokens, DType type) {
  const Index count = ceil_div(tokens, kMostChunk);
  return {.chunk = ceil_div(tokens, count), .lanes = std::min(count, kMostLanes), .type = type};
}

/// The first numbers of a buffer, as FP32.
std::vector<float> first_of(const rt::Handle& handle, Index count) {
  const rt::HostAccess access(handle, rt::Mode::kRead);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  const auto copy = [&](const auto& all) {
    std::transform(all.begin(), all.begin() + count, numbers.begin(),
                   [](auto number) { return to_float(number); });
  };
  if (handle.type() == DType::kBF16)
    copy(access.as<const BF16>());
  else
    copy(access.as<const float>());
  return numbers;
}

}  // namespace

inference::Use Generator::use(const train::ModelSource& source, Index prompt, Index count,
                              DType type) {
  const Index context = source.model().context;
  const Index first = std::min(context, prompt);
  const Index all = first + std::min(context - first, count);
  // A window that moves is computed whole.
  const bool moves = count > context - first;
  // One worker's work space stands for all: the rest is small beside the parameters.
  const models::ContinuationShape shape = chunks_of(moves ? all : first, type);
  inference::Use use{.model = source.model(), .run = shape.run(), .continued = shape};
  use.model.context = all;
  return use;
}

Generator::Generator(rt::Session& session, const train::ModelSource& source,
                     const inference::Use& use)
    : config_(use.model),
      trained_(session, source, use.run.type),
      continuation_(session, trained_.parameters(), config_, use.continued.value()) {}

void Generator::generate(std::vector<std::int32_t>& tokens, Index count, const Sampler& sampler,
                         Index vocabulary, std::span<const Index> ends,
                         const std::function<void()>& grown) {
  require(!tokens.empty(), "a sequence to continue");
  require(vocabulary <= config_.vocabulary, "tokens of the model");
  rt::Submitter& submitter = trained_.submitter();
  submitter.set_tag({rt::Phase::kForward, 0});
  Index computed = 0;
  for (Index i = 0; i < count; ++i) {
    const auto all = std::ssize(tokens);
    const Index used = std::min(config_.context, all);
    const auto window = std::span(tokens).last(static_cast<std::size_t>(used));
    const rt::Handle& logits =
        continuation_.extend(submitter, window, all > config_.context ? 0 : computed);
    computed = used;
    submitter.profile().take(0);
    const std::vector<float> known = first_of(logits, vocabulary);
    tokens.push_back(sampler.draw(known, static_cast<Index>(tokens.size()), tokens));
    if (std::ranges::find(ends, Index{tokens.back()}) != ends.end()) return;
    grown();
  }
}

}  // namespace dos::generate
