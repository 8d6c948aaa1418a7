// SPDX-License-Identifier: Apache-2.0
// One sequence that grows, against the forward pass of all its tokens at once.
#include "models/continuation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.hpp"
#include "models/decoder.hpp"
#include "nn/initialise.hpp"
#include "sanitized.hpp"
#include "shape/cutter.hpp"

namespace dos::test::continuation_test {
namespace {

using models::Continuation;
using models::ContinuationShape;
using shape::ModelConfig;

ModelConfig llama(Index context) {
  ModelConfig model{"llama", 2, 24, 4, context, 61};
  model.kv_heads = 2;
  model.ffn = 40;
  model.head_dim = 10;
  return model;
}

/// Every way in which a token looks back.
std::vector<ModelConfig> models_of(Index context) {
  ModelConfig window = llama(context);
  window.window = 5;
  ModelConfig chosen = llama(context);
  chosen.qk_norm = chosen.tied_head = chosen.qkv_bias = true;
  chosen.kv_heads = 1;
  chosen.rope_scaling.factor = 4;
  chosen.rope_scaling.original_context = 8;
  ModelConfig gpt2{"gpt2", 2, 24, 3, context, 61};
  ModelConfig adapted = chosen;
  adapted.adapters = {.rank = 3, .alpha = 6, .targets = {{"attention.qkv", {0, 2}}}};
  ModelConfig adapted_gpt2 = gpt2;
  adapted_gpt2.adapters = {.rank = 2, .alpha = 2, .targets = {}};
  for (const char* module : {"attention.qkv", "attention.projection", "mlp.up", "mlp.down"})
    adapted_gpt2.adapters.targets[module] = {0};
  return {gpt2, llama(context), window, chosen, adapted, adapted_gpt2};
}

/// A model of random parameters, in one session.
struct Model {
  explicit Model(const ModelConfig& model)
      : config(model),
        submitter(session),
        parameters(session,
                   shape::cut_into_subgroups(
                       shape::find_family(model.architecture).parameters(model), 700, {})) {
    submitter.set_tag({rt::Phase::kInit, 0});
    nn::submit_initialisation(submitter, parameters, 7);
    // Larger than those a training starts with: attention is not uniform.
    for (const shape::PlacedParameter& parameter : parameters.layout().parameters) {
      std::vector<float> values(static_cast<std::size_t>(parameter.spec.count()));
      parameters.values().read(parameter, values);
      // Adapters start as zeros, and would not show.
      const Philox random(8);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (parameter.spec.is_adapter)
          values[i] = 0.3F * random.normal(i, stream_of(parameter.spec.name));
        else if (parameter.spec.is_matrix())
          values[i] *= 8;
      parameters.values().write(parameter, values);
    }
    submitter.set_tag({rt::Phase::kForward, 0});
  }
  ~Model() { session.wait_all(); }

  std::vector<float> logits_in(const rt::Handle& handle) {
    const rt::HostAccess access(handle, rt::Mode::kRead);
    const auto all = access.as<const float>().first(static_cast<std::size_t>(config.vocabulary));
    return {all.begin(), all.end()};
  }

  /// By the decoder that computes all tokens, behind which there are zeros.
  std::vector<float> expected(models::Decoder& decoder, std::span<const std::int32_t> tokens) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(config.context) + 1, 0);
    std::ranges::copy(tokens, all.begin());
    return logits_in(decoder.predict(submitter, all, std::ssize(tokens) - 1));
  }

  ModelConfig config;
  rt::Session session{{.scheduler = "lws", .cpu_workers = 2}};
  rt::Submitter submitter;
  tensor::ParameterSet parameters;
};

std::vector<std::int32_t> random_tokens(Index count, std::uint64_t seed) {
  std::vector<std::int32_t> tokens;
  for (Index i = 0; i < count; ++i)
    tokens.push_back(
        static_cast<std::int32_t>(61 * Philox(seed).uniform(static_cast<std::uint64_t>(i))));
  return tokens;
}

// Both compute the same products, in other orders: sums of at most 61 terms, 14 of them behind each
// other, of numbers that norms keep near 1 and matrices of deviation 0.16 within 10. Each sum is
// off by 61 / 2 roundings of its terms at most, and by sqrt(61) as a rule: 14 * 8 * 10 * 2^-24 =
// 7e-5.
constexpr double kTolerance = 7e-5;

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  double spread = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], kTolerance) << "token " << i;
    spread = std::max(spread, std::abs(static_cast<double>(expected[i]) - expected[0]));
  }
  EXPECT_GT(spread, 0.1) << "logits that say nothing";
}

TEST(Continuation, GivesTheLogitsOfTheWholeSequence) {
  constexpr Index kContext = 37;
  int combination = 0;
  for (const ModelConfig& config : models_of(kContext)) {
    Model model(config);
    models::Decoder decoder(model.session, model.parameters, config,
                            {.training = false, .logits_rows = 1});
    std::uint64_t seed = 1;
    for (const ContinuationShape shape :
         {ContinuationShape{1, 1}, {2, 1}, {5, 2}, {16, 3}, {36, 1}, {kContext, 1}}) {
      Continuation continuation(model.session, model.parameters, config, shape);
      for (const Index prompt : {Index{1}, Index{2}, shape.chunk, Index{20}, kContext}) {
        if (!test::tries(combination++, 7)) continue;
        SCOPED_TRACE(testing::Message()
                     << config.architecture << " window " << config.window << ", chunks of "
                     << shape.chunk << ", prompt of " << prompt);
        // The same buffers serve other sequences.
        const auto tokens = random_tokens(kContext, ++seed);
        Index computed = 0;
        for (Index length = prompt; length <= kContext;
             length += length % 3 == 0 ? 4 : 1 + length / 30) {
          const auto known = std::span(tokens).first(static_cast<std::size_t>(length));
          const auto got = model.logits_in(continuation.extend(model.submitter, known, computed));
          expect_near(got, model.expected(decoder, known));
          computed = length;
        }
      }
    }
  }
}

TEST(Continuation, RegistersWhatIsSaidBefore) {
  for (const ModelConfig& config : models_of(29))
    for (const ContinuationShape shape :
         {ContinuationShape{1, 1}, {7, 2}, {29, 1}, {7, 2, DType::kBF16}}) {
      Model model(config);
      const rt::MemoryBytes before = model.session.memory().now();
      const Continuation continuation(model.session, model.parameters, config, shape);
      const rt::MemoryBytes after = model.session.memory().now();
      const rt::MemoryBytes said = models::buffers(config, shape, {.all = model.session.workers()});
      for (const MemoryCategory category : kBufferCategories)
        EXPECT_EQ(after[category] - before[category], said[category]) << name_of(category);
    }
}

TEST(Continuation, OfATokenHasTheTasksOfAForwardPass) {
  for (const ModelConfig& config : models_of(9)) {
    Model model(config);
    Continuation continuation(model.session, model.parameters, config, {4, 1});
    const auto tokens = random_tokens(9, 1);
    model.submitter.profile().take(0);
    continuation.extend(model.submitter, std::span(tokens).first(4), 0);
    continuation.extend(model.submitter, std::span(tokens).first(5), 4);
    const Index forward = shape::find_family(config.architecture).block(config).forward_tasks;
    // Tokens, embedding, last norm and logits.
    EXPECT_EQ(std::ssize(model.submitter.profile().take(0)), 2 * (4 + config.layers * forward));
  }
}

TEST(Continuation, RefusesTokensOutsideTheContext) {
  Model model(models_of(6).front());
  Continuation continuation(model.session, model.parameters, model.config, {3, 1});
  const auto tokens = random_tokens(7, 1);
  EXPECT_THROW(continuation.extend(model.submitter, tokens, 0), ContractViolation);
  EXPECT_THROW(continuation.extend(model.submitter, std::span(tokens).first(3), 3),
               ContractViolation);
}

}  // namespace
}  // namespace dos::test::continuation_test
