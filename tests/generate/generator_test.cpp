// SPDX-License-Identifier: Apache-2.0
#include "generate/generator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bf16.hpp"
#include "models/decoder.hpp"
#include "norms.hpp"
#include "scratch_directory.hpp"
#include "train/export_run.hpp"

namespace dos::generate::generator_test {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr const char* kModels[] = {"gpt2", "llama3", "mistral", "qwen2", "qwen3"};

std::filesystem::path folder_of(const std::string& model) {
  return std::filesystem::path(std::getenv("DOS_SOURCE_DIR")) / "tests/reference/hf_tiny" / model;
}

/// The most likely tokens behind a prompt.
Tokens continued(rt::Session& session, const train::ModelSource& source, Tokens tokens, Index count,
                 DType type = DType::kF32) {
  const auto prompt = std::ssize(tokens);
  Generator generator(session, source, Generator::use(source, prompt, count, type));
  Index grown = 0;
  generator.generate(tokens, count, Sampler({.temperature = 0}), source.model().vocabulary, {},
                     [&] { ++grown; });
  EXPECT_EQ(grown, count);
  return {tokens.begin() + prompt, tokens.end()};
}

TEST(Generator, ContinuesAsTransformers) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  for (const char* name : kModels) {
    const train::ModelSource source(folder_of(name), "");
    const auto expected = nlohmann::json::parse(std::ifstream(folder_of(name) / "inference.json"));
    for (const auto& each : expected.at("greedy")) {
      const Tokens next = each.at("continuation");
      EXPECT_EQ(continued(session, source, each.at("prompt"), std::ssize(next)), next) << name;
    }
  }
}

TEST(Generator, StopsAfterTheFirstOfTheEnds) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  const train::ModelSource source(folder_of("qwen3"), "");
  const Tokens prompt{1, 8, 43};
  const Tokens all = continued(session, source, prompt, 12);
  ASSERT_NE(all[2], all[0]);
  ASSERT_NE(all[2], all[1]);
  const Index ends[] = {source.model().vocabulary + 5, all[2]};
  Generator generator(session, source, Generator::use(source, std::ssize(prompt), 12));
  Tokens tokens = prompt;
  generator.generate(tokens, 12, Sampler({.temperature = 0}), source.model().vocabulary, ends,
                     [] {});
  EXPECT_EQ(Tokens(tokens.begin() + std::ssize(prompt), tokens.end()),
            Tokens(all.begin(), all.begin() + 3));
}

/// The folder's model with weights of another type.
void write_as(const std::filesystem::path& from, DType dtype, const std::filesystem::path& to) {
  train::export_run({.source = from,
                     .folder = to,
                     .checkpoint = "",
                     .dtype = dtype,
                     .shard_bytes = 1'000'000'000});
}

/// The logits behind a prompt.
std::vector<float> logits_of(rt::Session& session, const train::ModelSource& source,
                             const Tokens& prompt, DType type = DType::kF32) {
  inference::TrainedModel trained(session, source, type);
  const auto size = std::ssize(prompt);
  models::Continuation continuation(session, trained.parameters(), source.model(), {size, 1, type});
  const rt::HostAccess access(continuation.extend(trained.submitter(), prompt, 0), rt::Mode::kRead);
  std::vector<float> logits(static_cast<std::size_t>(source.model().vocabulary));
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] =
        type == DType::kBF16 ? to_float(access.as<const BF16>()[i]) : access.as<const float>()[i];
  return logits;
}

// BF16 is widened, which is exact: what is computed is what FP32 makes of the rounded weights.
TEST(Generator, ComputesAModelInBf16AsOneInFp32WithItsWeights) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  for (const char* name : kModels) {
    SCOPED_TRACE(name);
    const test::ScratchDirectory scratch;
    write_as(folder_of(name), DType::kBF16, scratch / "bf16");
    write_as(scratch / "bf16", DType::kF32, scratch / "fp32");
    const train::ModelSource exact(folder_of(name), "");
    const train::ModelSource half(scratch / "bf16", "");
    const train::ModelSource widened(scratch / "fp32", "");
    ASSERT_TRUE(half.weights()->is_bf16());
    ASSERT_FALSE(widened.weights()->is_bf16());
    const Tokens prompt{1, 8, 43, 35, 56};
    const std::vector<float> logits = logits_of(session, half, prompt);
    EXPECT_EQ(logits, logits_of(session, widened, prompt));
    const std::vector<float> expected = logits_of(session, exact, prompt);
    EXPECT_NE(logits, expected);
    // A weight is off by 2^-8 / sqrt(3) in the mean square; a way to a logit passes two tables,
    // eight matrices and up to nine scales, whose independent errors add up to sqrt(19) times that.
    // Twice that is the limit, a tenth must be there.
    const double expected_error = std::sqrt(19.0 / 3) * 0x1p-8;
    const double error = test::distance(logits, expected) / test::norm_of(expected);
    EXPECT_LT(error, 2 * expected_error);
    EXPECT_GT(error, 0.1 * expected_error);
    EXPECT_EQ(continued(session, half, prompt, 27), continued(session, widened, prompt, 27));
  }
}

// Another computation with the same weights: activations are rounded.
TEST(Generator, InBf16ComesNear) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  for (const char* name : kModels) {
    SCOPED_TRACE(name);
    const test::ScratchDirectory scratch;
    write_as(folder_of(name), DType::kBF16, scratch / "bf16");
    const train::ModelSource source(scratch / "bf16", "");
    const Tokens prompt{1, 8, 43, 35, 56};
    const std::vector<float> expected = logits_of(session, source, prompt);
    const std::vector<float> logits = logits_of(session, source, prompt, DType::kBF16);
    // Two blocks of eight roundings each, stem, last norm and logits: some 20, each of 2^-8 /
    // sqrt(3) in the mean square. Twice that is the limit, a tenth must be there.
    const double expected_error = std::sqrt(20.0 / 3) * 0x1p-8;
    const double error = test::distance(logits, expected) / test::norm_of(expected);
    EXPECT_LT(error, 2 * expected_error);
    EXPECT_GT(error, 0.1 * expected_error);
    // Token by token as all at once, but for roundings: the most likely one is among the first.
    const Tokens next = continued(session, source, prompt, 1, DType::kBF16);
    const float chosen = expected[static_cast<std::size_t>(next.front())];
    const float largest = *std::ranges::max_element(expected);
    EXPECT_LT(largest - chosen, 2 * error * test::norm_of(expected));
    EXPECT_EQ(std::ssize(continued(session, source, prompt, 27, DType::kBF16)), 27);
  }
}

/// Of at most the last `context` tokens, all computed for each.
Tokens computed_anew(rt::Session& session, const train::ModelSource& source, Tokens tokens,
                     Index count) {
  inference::TrainedModel trained(session, source);
  models::Decoder decoder(session, trained.parameters(), source.model(),
                          {.training = false, .logits_rows = 1});
  const Index context = source.model().context;
  Tokens result;
  for (Index i = 0; i < count; ++i) {
    const Index used = std::min(context, static_cast<Index>(tokens.size()));
    Tokens window(static_cast<std::size_t>(context) + 1, 0);
    std::copy(tokens.end() - used, tokens.end(), window.begin());
    const rt::Handle& logits = decoder.predict(trained.submitter(), window, used - 1);
    const rt::HostAccess access(logits, rt::Mode::kRead);
    const auto all =
        access.as<const float>().first(static_cast<std::size_t>(source.model().vocabulary));
    result.push_back(static_cast<std::int32_t>(std::ranges::max_element(all) - all.begin()));
    tokens.push_back(result.back());
  }
  return result;
}

// The window moves: by one token from the context's end on, or from the start on.
TEST(Generator, SeesTheLastTokensOfItsContext) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  const train::ModelSource source(folder_of("gpt2"), "");
  const auto text = nlohmann::json::parse(std::ifstream(folder_of("gpt2") / "inference.json"))
                        .at("tokens")
                        .get<Tokens>();
  for (const Index prompt : {1, 20, 32, 33, 70}) {
    const Tokens tokens(text.begin(), text.begin() + prompt);
    EXPECT_EQ(continued(session, source, tokens, 40), computed_anew(session, source, tokens, 40))
        << prompt;
  }
}

TEST(Generator, NeedsRoomForItsTokensOnly) {
  const train::ModelSource source(folder_of("llama3"), "");
  EXPECT_EQ(source.model().context, 128);
  EXPECT_EQ(Generator::use(source, 5, 20).model.context, 25);
  EXPECT_EQ(Generator::use(source, 5, 20).continued->chunk, 5);
  EXPECT_EQ(Generator::use(source, 100, 28).model.context, 128);
  EXPECT_EQ(Generator::use(source, 100, 28).continued->chunk, 100);
  // Beyond the context all is computed again and again.
  EXPECT_EQ(Generator::use(source, 100, 29).continued->chunk, 128);
  EXPECT_EQ(Generator::use(source, 1, std::numeric_limits<Index>::max()).model.context, 128);
  EXPECT_EQ(Generator::use(source, 500, 1).model.context, 128);
}

}  // namespace
}  // namespace dos::generate::generator_test
